"""What-ifs: simulate single changes of the best designs, and report the effect of each change."""
