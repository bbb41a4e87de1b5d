"""What a change of a design does."""
