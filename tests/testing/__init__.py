"""The tools for testing, shown to catch what they are for."""
