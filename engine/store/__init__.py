"""A dataset on disk: ``manifest.json``, ``samples.sqlite`` (a row per image), ``images.lmdb`` (the bytes as they came)."""
