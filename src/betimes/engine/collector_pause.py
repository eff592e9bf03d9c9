"""A rest for Python's cyclic collector while a sweep decides thousands of streams.

All that a sweep picks and makes is kept until its commit and holds no cycles, so looking through it again and again
would be in vain.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

TURN_S = 0.0005


@contextmanager
def pause_collector() -> Iterator[None]:
    """Let Python's cyclic collector rest, and let threads take turns often, as long as a pass lasts.

    A store that writes in a thread of its own needs the interpreter for a moment between statements. Meanwhile the
    event loop holds it, and by default would for 5 ms each time, which is as long as a statement takes.
    """
    collects, turn_s = gc.isenabled(), sys.getswitchinterval()
    gc.disable()
    sys.setswitchinterval(min(turn_s, TURN_S))
    try:
        yield
    finally:
        if collects:
            gc.enable()
        if turn_s > TURN_S:
            sys.setswitchinterval(turn_s)
