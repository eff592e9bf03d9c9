"""The console: pages in a browser that show what is decided, why, and what comes next.

The pages are plain modules that ask the public HTTP API, with the key of whoever looks; nothing here decides, reads the
store or knows more than a script with the same key would.
"""
