"""The sample domain, told as scenarios."""
