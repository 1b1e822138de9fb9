"""Recording of kernel launches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import prod

from ..arrays import Array
from ..support.display import html_table, text_table
from ..support.records import record

__all__ = ["LAUNCHES", "Launch", "Launches", "bytes_of", "trace_launches"]


@record(frozen=True)
class Launch:
    """One kernel launch, as `trace_launches` records it.

    Attributes
    ----------
    kind : str
        ``"Map"``, ``"Reduce"``, ``"Row"``, ``"Contract"``; ``"Native"`` for code in
        the device's own language.
    name : str
        The spec's, or the kernel's.
    shape : tuple of int
        Extents of the merged loops; the grid, where the user chose it.
    backend : str
        The backend's name.
    bytes : int
        Of the arrays that go in and out, each element counted once; for code that
        indexes arrays itself an upper bound.
    grid, block : tuple of int, optional
        Where the user chose them.
    """

    kind: str
    name: str
    shape: tuple[int, ...]
    backend: str
    bytes: int = 0
    grid: tuple[int, ...] | None = None
    block: tuple[int, ...] | None = None


class Launches(list[Launch]):
    """Launches in their order; shown as a table."""

    def __repr__(self) -> str:
        return text_table(_HEAD, self._rows()) if self else "no launches"

    def _repr_html_(self) -> str:
        return html_table(_HEAD, self._rows())

    def _rows(self) -> list[tuple[object, ...]]:
        return [(k, one.kind, one.name, "×".join(map(str, one.shape)) or "1",
                 one.backend, one.bytes) for k, one in enumerate(self)]


_HEAD = ("", "kind", "name", "extents", "backend", "bytes")


def bytes_of(arrays: Iterable[Array]) -> int:
    """Bytes of all elements; an element repeated by stride 0 counts once."""
    return sum(a.dtype.itemsize * prod(
        n for n, step in zip(a.shape, a.strides, strict=True) if step or not n)
        for a in arrays)


LAUNCHES: ContextVar[list[Launch] | None] = ContextVar("nbfused_launches", default=None)


@contextmanager
def trace_launches() -> Iterator[list[Launch]]:
    """Record every kernel that the block launches, in this context only.

    Yields
    ------
    list of Launch
        In the order of the launches, shown as a table; a view launches nothing.

    Examples
    --------
    >>> import nbfused as nf
    >>> with nf.trace_launches() as launches:
    ...     y = nf.ops.swish(nf.zeros(3))
    >>> [(launch.kind, launch.bytes) for launch in launches]
    [('Map', 48)]
    """
    launches = Launches()
    token = LAUNCHES.set(launches)
    try:
        yield launches
    finally:
        LAUNCHES.reset(token)
