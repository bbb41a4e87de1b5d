"""The questions that studies ask, a room each, and the plan of a study that asks them."""
