"""Files of a study: rows, configuration, entries of cells, lock and bookmarks."""
