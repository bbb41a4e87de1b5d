"""The board: a local page of all studies in a results folder, live while they run."""
