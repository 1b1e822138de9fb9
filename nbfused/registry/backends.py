"""The registry of this process: its backends, and which of them owns a device.

Built-in backends are a static table, because a source tree has no entry points; others
come through the entry-point group ``nbfused.backends`` (name → ``module:Class``) or
`register`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .plugins import BUILTIN, Source, entry_points
from .selection import Registry

if TYPE_CHECKING:
    from ..backend import Backend
    from .info import Backends

__all__ = [
    "backend_for", "backends", "default_device", "enable", "register", "registry",
    "synchronize", "use_backend",
]

registry: Registry = Registry(BUILTIN, entry_points)


def enable(selection: str) -> None:
    """Select the backends of this process, once, at ``import nbfused``.

    Parameters
    ----------
    selection
        ``"auto"``: every usable backend, each found when an array of its first comes.
        A name or a list such as ``"cuda,cpu"``: exactly those, in order of priority.

    Raises
    ------
    BackendNotAvailableError
        If a name is unknown or cannot be used; names the cause and what was found.
    """
    registry.enable(selection)


def register(name: str, backend: Source) -> None:
    """Register a backend without an entry point.

    Parameters
    ----------
    name
        As in ``NBFUSED_BACKEND`` and `use_backend`.
    backend
        A backend, a class or function that makes one, or ``"module:Class"``.

    Raises
    ------
    DefinitionError
        If `name` cannot be asked for.

    Warns
    -----
    NbFusedWarning
        If the name is taken: the first one stays.
    """
    registry.register(name, backend)


def synchronize() -> None:
    """Wait until all work launched by this process on any device is done."""
    registry.synchronize()


def backends() -> Backends:
    """Describe all known backends: available, enabled, and if not, why.

    Examples
    --------
    >>> import nbfused as nf
    >>> nf.backends()["cpu"].available
    True
    """
    return registry.info()


def backend_for(device: str, name: str = "array") -> Backend:
    """Find the enabled backend that owns `device`: ``"cpu"``, ``"cuda:0"``.

    Parameters
    ----------
    device
        As in `Array.device`.
    name
        The argument that is there, for the message.

    Raises
    ------
    DeviceError
        If no enabled backend owns the device; says why and what to do.
    """
    return registry.backend_for(device, name)


def default_device() -> str:
    """The device on which `nbfused.array` puts host data by default."""
    return registry.default_device()


def use_backend(*backends: str | Backend) -> Any:
    """Restrict calls in a ``with`` block to some backends, in this context only.

    Parameters
    ----------
    *backends
        Names, lists such as ``"cuda,cpu"``, or backend objects; first one first.

    Raises
    ------
    BackendNotAvailableError
        On entry, if one is unknown or cannot be used.

    Examples
    --------
    >>> import nbfused as nf
    >>> with nf.use_backend("cpu"):
    ...     y = nf.ops.swish(nf.zeros(3))
    """
    return registry.use(*backends)
