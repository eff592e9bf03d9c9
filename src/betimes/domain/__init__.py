"""Shared parts of the services: each domain has one class over the engine that answers its callers.

The library hands these out, HTTP and the command line call them, and none of the three knows more than they do. A
method takes a request struct (see `betimes.core.checks` for making one from what came over a wire) and gives a struct
with the fields of the HTTP contract, instants as aware datetimes in UTC.
"""
