"""A trained network, ready to answer for one image or many."""
