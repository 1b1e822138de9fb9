"""Known defects that the generator keeps away from, by name; none is the aim.

A switch goes together with the defect that it names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["excludes"]

#: What is excluded → whether a statement with such features, which changes the array
#: `target`, shows it.
EXCLUDED: dict[str, Callable[[frozenset[str], Any], bool]] = {
    # NumPy gives np.where(c, x, y) and x.copy() without dimensions as arrays, which
    # keep their dtype under +=; nf.fuse takes them for scalars, which it replaces.
    # It refuses to change x.reshape(()).
    "arrays without dimensions that are changed": lambda features, target: isinstance(
        target, np.ndarray) and not target.ndim,
}


def excludes(features: frozenset[str], target: Any) -> bool:
    """Whether a switch keeps away from a statement."""
    return any(shows(features, target) for shows in EXCLUDED.values())
