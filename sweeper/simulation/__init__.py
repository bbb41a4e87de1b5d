"""One configuration as objects of the engine, and its simulation."""
