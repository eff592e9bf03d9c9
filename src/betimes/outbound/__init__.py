"""Executors: what carries out the calls that streams ask for."""
