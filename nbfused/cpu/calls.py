"""Which of this package's functions stand for operations of the scalar language."""

from __future__ import annotations

__all__ = ["CALLS"]

#: ``(operation, dtype)`` to the name of a function in `math`.
CALLS: dict[tuple[str, str], str] = {}
