"""The command line: the commands of ``dimsweep``."""
