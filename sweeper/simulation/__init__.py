"""Build the engine's objects from a configuration, and simulate it."""
