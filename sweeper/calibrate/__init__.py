"""Measurements and errors: a cluster's parameters, and how far a simulated time may be off."""
