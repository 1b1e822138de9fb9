"""Arrays shaped like another one."""

from __future__ import annotations

from typing import Any

from ..autograd.numpy_api.methods import check_layout
from .base import implements, ops

__all__: list[str] = []


@implements("full_like")
def full_like(a: Any, fill_value: Any, dtype: Any = None, order: str = "K") -> Any:
    """An array of one number in the shape of `a`."""
    check_layout("full_like", order)
    return ops.full_like(a, fill_value, dtype)


@implements("zeros_like")
def zeros_like(a: Any, dtype: Any = None, order: str = "K") -> Any:
    """Zeros in the shape of `a`."""
    check_layout("zeros_like", order)
    return ops.full_like(a, 0, dtype)


@implements("ones_like")
def ones_like(a: Any, dtype: Any = None, order: str = "K") -> Any:
    """Ones in the shape of `a`."""
    check_layout("ones_like", order)
    return ops.full_like(a, 1, dtype)


@implements("empty_like")
def empty_like(prototype: Any, dtype: Any = None, order: str = "K") -> Any:
    """An array in the shape of another one: of zeros, as any number will do."""
    check_layout("empty_like", order)
    return ops.full_like(prototype, 0, dtype)
