"""Export a study's rows to the formats of other tools, one module for each format."""
