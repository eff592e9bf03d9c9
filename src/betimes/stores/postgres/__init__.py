"""A store on PostgreSQL, for any number of processes on any number of machines.

    store = PostgresStore("postgresql://betimes@db.internal/betimes")
    await store.open()

It needs PostgreSQL 14 or later and the driver: `pip install 'betimes[postgres]'`. The driver is imported when a store
is made.
"""

from betimes.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
