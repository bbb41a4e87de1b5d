"""The search among networks and plans, with bounds that close cells."""
