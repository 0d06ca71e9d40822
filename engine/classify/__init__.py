"""Answers for many images that somebody brought."""
