"""The questions that a study can ask, a package each, and the planning of a study's cells."""
