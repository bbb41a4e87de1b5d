"""Configuration: its schema, and how it is composed from files and overrides."""
