"""Sensors: which changes outside must cause a run, exactly once."""
