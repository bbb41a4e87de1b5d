"""The plan of a study, before it runs: its cells, their bounds and first trials, and warnings."""
