"""Count windows over files: the cuts between windows are found where the files are read."""
