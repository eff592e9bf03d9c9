"""Intents: stored wishes that are checked, claimed and fired."""
