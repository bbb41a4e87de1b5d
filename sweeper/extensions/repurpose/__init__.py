"""Restructured networks side by side: what each costs, and how right it still is."""
