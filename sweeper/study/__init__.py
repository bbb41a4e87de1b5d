"""What a study will do, before it runs."""
