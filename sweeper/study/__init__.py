"""Plan the cells of a study before it runs: their bounds, their first trials, and warnings."""
