"""The command line, as processes and as functions."""
