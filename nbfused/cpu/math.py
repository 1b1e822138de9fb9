"""Functions of the mathematical vocabulary that LLVM can vectorise."""

from __future__ import annotations

from typing import Any

__all__ = ["MATH"]

#: Text of a kernel calls these by name.
MATH: dict[str, Any] = {}
