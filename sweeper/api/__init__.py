"""Run and read studies in Python, for notebooks; the files are the command line's."""
