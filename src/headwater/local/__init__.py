"""The host "this process": `Engine` and `run`, with tables of any library in and result rows out."""
