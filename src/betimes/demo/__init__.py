"""The demo: `betimes demo` shows every domain at work, with the public API only.

story.py     a few scenes in memory, one domain each
town.py      people and their assistant for some days on SQLite, with the HTTP API over it
command.py   the command itself

It is an example that ships with the package, so that it runs where only the wheel is installed. Nothing imports it.
"""
