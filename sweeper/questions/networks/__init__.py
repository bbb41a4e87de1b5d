"""Search among networks and parallel plans; lower bounds on the time exclude most candidates."""
