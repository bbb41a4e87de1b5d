"""Fit a cluster's parameters to measurements, and estimate the errors of simulated times."""
