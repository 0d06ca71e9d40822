"""Where images come from: folders, archives, lists. A name is data, never a place. Never loads torch."""
