"""The findings of a study as numbers, sentences and tables, which :mod:`sweeper.draw` renders."""
