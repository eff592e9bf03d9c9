"""The lake: the ledger exported to Parquet tables, a batch at a time, for queries in SQL.

A batch is a stretch of the ledger. Its files are written aside and put in place by one rename, and only then does the
checkpoint move on; whoever reads sees all of a batch or nothing of it. A batch is named by where it starts, so the same
stretch is never there twice, however often an export is killed and run again.
"""
