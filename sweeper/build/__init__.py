"""From configuration to the objects of the engine."""
