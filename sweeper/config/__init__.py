"""Configuration: which keys there are, and how files and overrides make one."""
