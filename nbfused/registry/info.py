"""Descriptions of backends, and their tabular form."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..support.display import html_table

if TYPE_CHECKING:
    from ..backend import Backend

__all__ = ["BackendInfo", "Backends", "device_of", "devices_of"]


class BackendInfo(NamedTuple):
    """The description of one backend: availability and devices.

    Attributes
    ----------
    name : str
        As in ``NBFUSED_BACKEND``.
    available : bool
        Whether it can be used on this machine.
    enabled : bool
        Whether calls may go to it: available, and selected.
    why : str or None
        Why it is not available.
    devices : tuple of str
        The devices it owns, as far as it tells: ``("cuda:0", "cuda:1")``.
    """

    name: str
    available: bool
    enabled: bool
    why: str | None
    devices: tuple[str, ...]


class Backends(dict[str, BackendInfo]):
    """Descriptions of backends by name; printed as a table."""

    def __repr__(self) -> str:
        width = max((len(name) for name in self), default=0)
        return "\n".join(f"{name:{width}}  {_state(info)}"
                         for name, info in self.items())

    def _repr_html_(self) -> str:
        return html_table(("backend", "state"), [
            (name, _state(info)) for name, info in self.items()])


def _state(info: BackendInfo) -> str:
    if not info.available:
        return f"not available: {info.why}"
    state = "enabled" if info.enabled else "available, not selected"
    return f"{state} ({', '.join(info.devices)})" if info.devices else state


def devices_of(backend: Backend) -> tuple[str, ...]:
    """The devices that a backend lists, if it has the optional method."""
    if hasattr(backend, "devices"):
        return tuple(backend.devices())
    return ("cpu",) if backend.owns("cpu") else ()


def device_of(backend: Backend) -> str:
    """A backend's default device for new arrays."""
    if backend.owns("cpu"):
        return "cpu"
    return next(iter(devices_of(backend)), f"{backend.name}:0")
