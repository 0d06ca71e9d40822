"""What happens inside one supervisor: engine process, beat, stream feed, and the verdict at the end."""
