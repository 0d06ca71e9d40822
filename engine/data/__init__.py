"""From stored bytes to the batches that a network sees."""
