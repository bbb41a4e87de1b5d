"""Configuration: its schema, and its composition from files and overrides."""
