"""Findings of a study: numbers, sentences and tables.  :mod:`sweeper.draw` renders them."""
