"""A store in memory: the contract in its plainest form, for tests, the simulator and backtests.

It behaves like a database server: any number of `MemoryStore`s are connections to one `MemoryDatabase`, rows and keys
are locked until their transaction ends, and nothing is visible before its commit. Every step yields to the event loop,
so that whatever can interleave does. It is lost with the process.
"""

from betimes.stores.memory.database import MemoryDatabase
from betimes.stores.memory.store import MemoryStore

__all__ = ["MemoryDatabase", "MemoryStore"]
