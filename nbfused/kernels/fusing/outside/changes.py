"""Assignments to containers and attributes, made at each call."""

from __future__ import annotations

from typing import Any, NamedTuple

from ....errors import KernelTypeError
from .containers import Change, Copies

__all__ = ["Changed", "with_changes"]


class _Places:
    """The places of changes; no container, so that it is handed through."""

    def __init__(self, changes: list[Change]) -> None:
        self.changes = changes


class Changed(NamedTuple):
    """The result of a function, and the new items of containers outside."""

    result: Any
    values: list[Any]
    places: _Places

    def assign(self, named: dict[str, Any]) -> Any:
        """Put the items into the containers of a call, and give the result."""
        for change, value in zip(self.places.changes, self.values, strict=True):
            change.make(named, value)
        return self.result


def with_changes(result: Any, copies: Copies, name: str) -> Any:
    """The result, with what was assigned to copies of containers.

    Raises
    ------
    KernelTypeError
        What was done to one is more than to assign to it.
    """
    try:
        changes = copies.changes()
    except ValueError as error:
        raise KernelTypeError(
            f"{name} changes {error}: nf.fuse assigns arrays and numbers at each call, "
            "and does nothing else to a container or an object; return what is new, or "
            "change it outside of the fused function") from None
    return Changed(result, [change.value for change in changes], _Places(changes)) \
        if changes else result
