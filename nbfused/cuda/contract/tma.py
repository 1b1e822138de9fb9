"""Tensor maps and tiles of Contract's kernels that TMA feeds.

Tiles of A and B are boxes of tensor maps.  In shared memory they go round through
stages; barriers say of each that it is full, or empty again.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...backend import Call
from ..runtime.tensor_map import reachable, tensor_map
from ..text.source import Source
from .calls import engine_of
from .text import ContractText

__all__ = ["Batches", "TmaFactors", "box_places", "matrix_descriptor", "next_stage",
           "start_barriers"]

#: For A and B, the loops of the batch that they vary along.
Batches = tuple[tuple[int, ...], tuple[int, ...]]

#: More points of a loop than TMA can count.
_EXTENT = 1 << 31
#: Loops of a batch that a tensor map has room for.
_BATCH = 3


class TmaFactors:
    """The factors of a Contract with one m, n and k loop, as TMA sees them.

    Parameters
    ----------
    text
        Operands and loops.
    engines
        What may multiply them, by name.
    """

    def __init__(self, text: ContractText, *engines: str) -> None:
        self._batch, engine = text.ranks[0], engine_of(text)
        self._items = [o.dtype.itemsize for o in text.factors]
        self._dtypes = [o.dtype.name for o in text.factors]
        #: Whether one of them does, and tensor maps have room for the loops.
        self.possible = engine is not None and engine.name in engines \
            and self._batch <= _BATCH

    def along(self, call: Call, which: int) -> bool:
        """Whether k is the dimension of a factor with stride 1."""
        return call.strides[which][self._batch + 2] == 1

    def batches(self, call: Call) -> Batches:
        """The loops of the batch that each factor varies along."""
        return self._varying(call, 0), self._varying(call, 1)

    def _varying(self, call: Call, which: int) -> tuple[int, ...]:
        strides, shape = call.strides[which], call.shape
        return tuple([x for x in range(self._batch) if strides[x] and shape[x] > 1])

    def reachable(self, call: Call) -> bool:
        """Whether TMA can bring both."""
        return 0 not in call.shape and max(call.shape) < _EXTENT and \
            all(self._reachable(call, which) for which in (0, 1))

    def _loops(self, call: Call, which: int) -> tuple[int, int]:
        """The loops over the dimensions of a factor, the inner one first."""
        own, k = self._batch + which, self._batch + 2
        return (k, own) if self.along(call, which) else (own, k)

    def _reachable(self, call: Call, which: int) -> bool:
        strides, item = call.strides[which], self._items[which]
        inner, outer = self._loops(call, which)
        return strides[inner] == 1 and reachable(call.pointers[which], [
            item*strides[x] for x in (outer, *self._varying(call, which))])

    def map(self, call: Call, which: int, batch: tuple[int, ...], box: tuple[int, int],
            dtype: str = "", swizzle: str = "128B") -> bytes:
        """The tensor map of a factor.

        Parameters
        ----------
        batch
            The loops of the batch that it varies along.
        box
            Its extents along the inner and the outer dimension.
        dtype, swizzle
            See `tensor_map`; by default the factor's dtype.
        """
        strides, shape, item = call.strides[which], call.shape, self._items[which]
        inner, outer = self._loops(call, which)
        loops = (outer, *batch[::-1])
        return tensor_map(
            dtype or self._dtypes[which], call.pointers[which],
            (shape[inner], *[shape[x] for x in loops]),
            tuple([item*strides[x] for x in loops]), (*box, *(1,)*len(batch)), swizzle)


# --- lines of a kernel


def start_barriers(out: Source, stages: int, **arrivals: int) -> None:
    """Make the barriers of each stage; how many arrivals each of them waits for."""
    for s in range(stages):
        out(*(f"barrier_init({name} + {8*s}, {count})"
              for name, count in arrivals.items()))


def next_stage(out: Source, stages: int, stage: str = "stage",
               phase: str = "phase") -> None:
    """Go on to the next stage; each time round the phase of the barriers changes."""
    out(f"{stage} += 1")
    with out.block(f"if {stage} == {stages}:"):
        out(f"{stage} = i64(0)", f"{phase} ^= 1")


def box_places(along: bool, own: str, batch: Sequence[int]) -> list[str]:
    """Coordinates of a factor's box as TMA counts: the inner dimension first.

    Parameters
    ----------
    along
        Whether k is the inner dimension.
    own
        Text of the place along the other one.
    batch
        The loops of the batch that the factor varies along.
    """
    places = ["k", own] if along else [own, "k"]
    return [*places, *(f"batch{x}" for x in reversed(batch))]


def matrix_descriptor(apart: int) -> int:
    """A tile with 128-byte swizzling for ``wgmma``, its address left out.

    The bytes from one group of 8 rows to the next are 1024, those between tiles that
    are side by side `apart`.
    """
    return (1 << 62) | ((1024 >> 4) << 32) | ((apart >> 4) << 16)
