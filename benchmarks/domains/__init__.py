"""What is measured of each domain: one module each, whose `SUITES` are found by name."""
