"""Processes killed, stopped and starved for real, and what must have survived."""
