"""The pure vocabulary, mostly by properties."""
