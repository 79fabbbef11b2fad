"""`hw.read`: who reads which files, leaves inside partition readers, and roots behind the shuffle."""
