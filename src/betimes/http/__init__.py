"""The HTTP API: a thin typed layer over the services. It decodes, asks for a scope, calls, and encodes; no more."""
