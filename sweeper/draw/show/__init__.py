"""How a report is shown: in the terminal, and as a page with pictures."""
