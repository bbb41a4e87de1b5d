"""What-ifs: single changes of the best designs, and their effects."""
