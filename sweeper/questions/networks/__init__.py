"""Spaces of networks and plans, and the bounds that close their cells."""
