"""Schedules and sensors: which clock ticks and outside changes must cause a run, exactly once."""
