"""Studies in Python, for notebooks: they are run, recorded and read as the command line does it."""
