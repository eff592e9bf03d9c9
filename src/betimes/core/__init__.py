"""The pure vocabulary: ids, segments, verdicts, deciders, instants, windows, jitter, canonical bytes.

Nothing here reads a clock, the environment or a random number, and nothing here does I/O.
"""
