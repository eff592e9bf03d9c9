"""Answers that are kept under an idempotency key because no single command stands behind them."""
