"""How good a checkpoint is on images whose answers are known."""
