"""The phase kernel: chunks move through the dimensions of a network phase by phase."""
