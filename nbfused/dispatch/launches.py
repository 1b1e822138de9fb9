"""What is launched, for whoever wants to know."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

__all__ = ["LAUNCHES", "Launch", "trace_launches"]


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch, as `trace_launches` records it.

    Attributes
    ----------
    kind : str
        ``"Map"``, ``"Reduce"``, ``"Row"`` or ``"Contract"``.
    name : str
        The spec's.
    shape : tuple of int
        Extents of the merged loops.
    backend : str
        The backend's name.
    """

    kind: str
    name: str
    shape: tuple[int, ...]
    backend: str


LAUNCHES: ContextVar[list[Launch] | None] = ContextVar("nbfused_launches", default=None)


@contextmanager
def trace_launches() -> Iterator[list[Launch]]:
    """Record every kernel that the block launches, in this context only.

    Yields
    ------
    list of Launch
        In the order of the launches; a view launches nothing.

    Examples
    --------
    >>> import nbfused as nf
    >>> with nf.trace_launches() as launches:
    ...     y = nf.ops.swish(nf.zeros(3))
    >>> [launch.kind for launch in launches]
    ['Map']
    """
    launches: list[Launch] = []
    token = LAUNCHES.set(launches)
    try:
        yield launches
    finally:
        LAUNCHES.reset(token)
