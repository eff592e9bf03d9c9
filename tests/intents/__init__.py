"""Tests of intents."""
