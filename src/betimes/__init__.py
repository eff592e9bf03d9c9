"""betimes: a durable timing engine. May this happen now, later, or never, and why?

What this module exports is the public API; everything below it may change.
"""

from importlib.metadata import version

__version__ = version("betimes")

__all__ = ["__version__"]
