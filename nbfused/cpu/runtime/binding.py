"""Launchers that bind the layout of a call once, then start it with addresses."""

from __future__ import annotations

from collections.abc import Callable

from ...backend import Call, Start

__all__ = ["BindingLauncher"]


class BindingLauncher:
    """A launcher that binds a call's layout, then starts it.

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
