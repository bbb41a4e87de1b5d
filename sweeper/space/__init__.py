"""The search space of a study: bandwidth splits, parallel plans, and other keys."""
