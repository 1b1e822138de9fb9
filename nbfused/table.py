"""The table of operations: filled where ops are defined, read by everything else."""

from __future__ import annotations

from typing import Any

__all__ = ["OPS"]

#: Public name of an operation -> the callable object that is it.
OPS: dict[str, Any] = {}
