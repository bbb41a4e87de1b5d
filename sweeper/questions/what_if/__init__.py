"""Single changes of the best designs (what-ifs), and their effects."""
