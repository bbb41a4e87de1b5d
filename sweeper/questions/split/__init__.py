"""Search how to split bandwidth among dimensions, and the best values of other keys.

The search runs in each cell of a grid.
"""
