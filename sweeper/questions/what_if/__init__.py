"""Simulate single changes of the best designs (what-ifs), and report the effect of each change."""
