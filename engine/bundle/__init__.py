"""What a person takes away: verified models, and all that is needed to run, check and rebuild them. Loads no torch."""
