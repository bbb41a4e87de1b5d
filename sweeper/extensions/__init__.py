"""Extensions of the sweeper: commands, kinds and comparisons that the core does without."""
