"""Benchmarks: always a ratio of two things measured in one run, because machines are noisy."""
