"""How to split bandwidth, and which values other keys should have: grids of cells."""
