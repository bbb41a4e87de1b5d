"""The search space of a study."""
