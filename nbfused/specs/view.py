"""`View`: shapes and strides only; what moves no number."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["View"]


@dataclass(frozen=True)
class View:
    """``kind`` is reshape, transpose, broadcast, slice, expand, unslice, concatenate;
    ``params`` is what it needs."""

    kind: str
    params: tuple
