"""The phase kernel: each chunk of a collective passes the network dimensions phase by phase."""
