"""Files of a study: rows of results, configuration, progress of searches, and the writer's lock."""
