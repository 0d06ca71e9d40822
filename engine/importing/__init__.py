"""From a tree of files to a dataset. Never loads torch."""
