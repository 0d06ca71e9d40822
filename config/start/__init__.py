"""The foreground start: everything that ``manage.py up`` needs to run Fovea on one machine."""
