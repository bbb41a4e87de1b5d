"""Collectives: algorithms, libraries, and phases as steps and as messages."""
