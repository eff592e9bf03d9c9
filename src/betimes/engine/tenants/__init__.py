"""A tenant: what is in force for it."""
