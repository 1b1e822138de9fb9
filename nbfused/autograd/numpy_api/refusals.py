"""Errors for parameters of NumPy's that are not honoured, with the way out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...errors import KernelTypeError

__all__ = ["no_operation", "refuse_options", "unsupported"]

#: Values of NumPy's parameters that ask for what is done anyhow.
_AS_IT_IS: dict[str, tuple[Any, ...]] = {
    "order": ("C",), "mode": ("raise",), "subok": (True, False), "device": (None,),
    "copy": (None,), "where": (True,), "shape": (None,), "out": (None,),
    "casting": ("same_kind",), "dtype": (None,), "signature": (None,)}


def refuse_options(name: str, given: Mapping[str, Any]) -> None:
    """Raise `KernelTypeError` for a NumPy parameter that is not supported."""
    for option, value in given.items():
        if value is np._NoValue or any(
                value is x for x in _AS_IT_IS.get(option, ())):
            continue
        raise unsupported(name, option, value)


#: What to do instead of giving one of NumPy's parameters.
_WAYS = {
    "order": "transpose before and after it, or set the layout of NumPy's own arrays",
    "device": "move the array first, as nf.array(x, device=...) does",
    "shape": "use nf.full, nf.zeros or nf.ones with dtype=",
    "copy": "copy the result, or do not", "out": "take the result",
    "where": "choose with nf.ops.where",
}


def unsupported(name: str, option: str, value: Any) -> KernelTypeError:
    """The error for a value of one of NumPy's parameters that is not supported."""
    way = _WAYS.get(option, "write it with functions of nf.ops")
    return no_operation(
        f"{name}: '{option}' is not supported on what nbfused computes, got {value!r}; "
        f"leave it out and {way}, or call NumPy's function on NumPy's arrays")


def no_operation(message: str) -> KernelTypeError:
    """The error for what NumPy computes and no operation of nbfused does.

    `nf.fuse` calls NumPy's function instead where it sees one.
    """
    error = KernelTypeError(message)
    error.no_operation = True  # type: ignore[attr-defined]
    return error
