"""Every store against one contract."""
