"""Built-in extensions, such as replicas of other simulators, cycle by cycle."""
