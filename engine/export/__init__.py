"""A trained network turned into a file that other programs run, and the proof that it still answers the same."""
