"""Bulk operations of operators, recorded with actor, reason and targets."""
