"""What configurations are made of, and where their files lie."""
