"""The simulator, what it finds, and whether it would find it."""
