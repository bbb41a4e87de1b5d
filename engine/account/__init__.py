"""Accounts of simulated runs: breakdown, critical path, spans and timeline."""
