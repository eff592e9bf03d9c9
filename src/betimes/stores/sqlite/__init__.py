"""The SQLite store: one file, one writer, every acknowledged decision synced to the disk.

A transaction holds the database's write lock (`BEGIN IMMEDIATE`) from before anything is read until its commit, so
nothing a batch decides upon can move and nothing is ever held by somebody else. Any number of processes on one machine
may share the file; they take turns. Reading goes by a second connection and never waits for a writer.
"""

from betimes.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
