"""Everything that touches images and networks. Runs from a shell alone; knows no web framework, queue or database."""
