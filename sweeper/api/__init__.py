"""Run and read studies in Python, for notebooks; the files are those of the command line."""
