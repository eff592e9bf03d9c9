"""The engine on every store, with the sample domain."""
