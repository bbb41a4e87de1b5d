"""Run a study: the loop of a sweep, its checkpoints, and its executors."""
