"""A rest for Python's cyclic collector while a batch is decided and committed.

All that a batch makes is kept until its commit, holds no cycles and is freed right after it, so looking through it
again and again meanwhile would be in vain: that is a tenth of what a verdict costs.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def pause_collector() -> Iterator[None]:
    """Let Python's cyclic collector rest as long as a batch lasts."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
