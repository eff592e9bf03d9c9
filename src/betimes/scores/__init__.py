"""Scores: use it or lose it. A score from 0 to 100 that fades while its owner does not act."""
