"""Replicas: what reproduces another simulator, cycle by cycle."""
