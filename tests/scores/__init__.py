"""Scores: their arithmetic, rules, services and sweeps."""
