"""Pictures and trained models on call: one process that web processes ask over a unix socket."""
