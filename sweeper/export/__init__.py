"""A study's rows in the formats of other tools, one file for each format."""
