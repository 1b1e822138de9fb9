"""A count of the changes to what prepared calls depend on: settings and backends.

It is a word of memory, so that machine code can compare it.
"""

from __future__ import annotations

__all__ = ["STAMP", "renew", "stamp"]

#: The count; its memory stays where it is.
STAMP = bytearray(8)


def stamp() -> int:
    """The count now."""
    return int.from_bytes(STAMP, "little")


def renew() -> None:
    """Count a change: what was prepared before has to be looked up again."""
    STAMP[:] = (stamp() + 1).to_bytes(8, "little")
