"""Tests of the domain notifications."""
