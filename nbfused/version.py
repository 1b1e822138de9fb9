"""Versions of the package and of the backend protocol."""

__version__ = "0.1.0"

#: What `backend.Backend` asks of a backend.
PROTOCOL_VERSION = 1
