"""A dataset on disk: ``manifest.json``, ``samples.sqlite`` (a row an image), ``images.lmdb`` (bytes as they came)."""
