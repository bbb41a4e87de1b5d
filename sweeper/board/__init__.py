"""The board: a local web page of all studies in a results folder, updated while they run."""
