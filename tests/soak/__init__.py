"""Long runs that look for a broken promise, each of which ends with the row it adds to docs/reliability.md."""
