"""How long tests wait for what must happen."""

HANGS_S = 600
"""Only so that a test whose subject hangs ends at all; nothing is measured by it, however busy the machine is."""
