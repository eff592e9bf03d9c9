"""Backtests: which ones a tenant has asked for, and what came of them."""
