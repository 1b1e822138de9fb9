"""The ops of nbfused in NumPy: what ``ops.softmax`` is where a program runs with NumPy.

Each computes its reference in float64 and rounds once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nbfused.registry.operations import OPS

__all__ = ["ORACLES", "Oracles"]


def _is_floating(x: Any) -> bool:
    return isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind == "f"


def _wide(x: Any) -> Any:
    return np.asarray(x, np.float64) if _is_floating(x) else x


def _of(name: str) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        found = OPS[name].reference(*map(_wide, args), **kwargs)
        dtype = np.result_type(*filter(_is_floating, args))
        return np.asarray(found).astype(dtype)[()]  # a scalar, as ufuncs give it

    return call


class Oracles:
    """A module of references; ``out=`` is not taken."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _of(name)


ORACLES = Oracles()
