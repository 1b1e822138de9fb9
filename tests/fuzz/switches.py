"""Known defects that the generator keeps away from, by name; none is the aim.

A switch is a name and what it excludes; it goes together with the defect.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from .catalogue import Row

__all__ = ["EXCLUDED", "allows", "excludes"]

#: What is excluded → rows of the tables that show it.
EXCLUDED: dict[str, Callable[[Row], bool]] = {
    "in-place bits in fuse": lambda row: "in-place-bits" in row.features,
    "out= in fuse": lambda row: "out" in row.features,
    "second derivatives at NumPy scalars": lambda row: False,
    "NaN of unused values": lambda row: False,
    "numbers out of range": lambda row: False,
}
#: ``NBFUSED_FUZZ_ALL=1`` lifts all of them.
if os.environ.get("NBFUSED_FUZZ_ALL") == "1":
    EXCLUDED.clear()


def allows(row: Row) -> bool:
    """Whether no switch excludes a row."""
    return not any(excluded(row) for excluded in EXCLUDED.values())


def excludes(name: str) -> bool:
    """Whether a known defect is kept away from."""
    return name in EXCLUDED
