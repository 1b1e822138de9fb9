"""Versions of the package and of the backend protocol."""

#: The version of the package, as text.
__version__ = "0.1.0"

#: The number of the interface `backend.Backend`; it grows when that asks for more.
PROTOCOL_VERSION = 1
