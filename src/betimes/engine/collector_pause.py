"""A rest for Python's cyclic collector while a sweep decides thousands of streams.

All that a sweep picks and makes is kept until its commit and holds no cycles, so looking through it again and again
would be in vain.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def pause_collector() -> Iterator[None]:
    """Let Python's cyclic collector rest as long as a pass lasts."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
