"""Known defects that the generator keeps away from, by name; none is the aim.

A switch is a name and what it excludes; it goes together with the defect.
"""

from __future__ import annotations

from collections.abc import Callable

from .catalogue import Row

__all__ = ["EXCLUDED", "allows", "excludes"]

#: What is excluded → rows of the tables that show it.
EXCLUDED: dict[str, Callable[[Row], bool]] = {}


def allows(row: Row) -> bool:
    """Whether no switch excludes a row."""
    return not any(excluded(row) for excluded in EXCLUDED.values())


def excludes(name: str) -> bool:
    """Whether a known defect is kept away from."""
    return name in EXCLUDED
