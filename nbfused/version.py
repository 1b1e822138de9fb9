"""Versions: the package's, which the build reads from here too, and the protocol's."""

__version__ = "0.1.0"

#: What `backend.Backend` asks of a backend.
PROTOCOL_VERSION = 1
