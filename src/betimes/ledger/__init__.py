"""Reading history: segments, explanations, live verdicts, counts, Parquet."""
