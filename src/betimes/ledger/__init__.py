"""How history is read: segments, explanations, live verdicts, counts, Parquet."""
