"""Launchers that decide from extents and strides, once for all calls alike in these."""

from __future__ import annotations

from collections.abc import Callable

from ..backend import Call, Start

__all__ = ["Bindable"]


class Bindable:
    """A launcher whose calls are bound, then started.

    Attributes
    ----------
    bind
        See `backend.Launcher`.
    """

    def __init__(self, bind: Callable[[Call], Start]) -> None:
        self.bind = bind

    def __call__(self, call: Call) -> None:
        """Launch; return when the results are there."""
        self.bind(call)(call.pointers, call.scalars, call.stream)
