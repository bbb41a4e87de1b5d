"""Draw pictures, the HTML page and the terminal's report."""
