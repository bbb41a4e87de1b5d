"""What a study found: numbers, findings in words, and tables.  It is shown by sweeper.draw."""
