"""Text that folds many elements into one state, in vectors and in a fixed order.

A float sum may not be reordered by the compiler, so the order is chosen here: 64
independent states next to each other, lane ``l`` combining the elements ``l``,
``l + 64``, …; after 32 of them the lanes are emptied into a second level, and in the
end the lanes are combined pairwise.  The order depends on the number of elements alone,
neither on the threads nor on the processor, and errors grow like those of pairwise
summation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...scalar.ir.nodes import Literal
from ...scalar.printing.numba import cast, decode, encode, literal, statements
from ...scalar.typing.types import Typed, compute_dtype
from .function_names import CALLS
from .lines import inlined, local, loop, packed

__all__ = ["Fold"]

#: Lanes of a fold.  With fewer LLVM unrolls the loop over them before it can vectorise
#: it: benchmarks/notes/cpu.md#rows-and-reductions-on-the-cpu.
_LANES = 64

#: Elements that a lane combines before its state goes to the second level; not
#: measured.
_GROUP = 32


class Fold:
    """Functions and lines that fold elements into a state.

    Parameters
    ----------
    tag
        Begins the names of the functions.
    state, identity, merge
        As in `TypedReduce`.
    """

    def __init__(self, tag: str, state: Sequence[np.dtype], identity: Sequence[Literal],
                 merge: Typed) -> None:
        self.tag = tag
        self.state = tuple(state)
        self.identity = tuple(identity)
        self.merge = merge
        self.top = tuple(f"{tag}_t{k}" for k in range(len(self.state)))
        self.low = tuple(f"{tag}_b{k}" for k in range(len(self.state)))

    def locals(self, count: int = _LANES) -> list[str]:
        """Lines that reserve both levels of lanes, `count` states each."""
        return [local(name, dtype, count)
                for names in (self.top, self.low)
                for name, dtype in zip(names, self.state, strict=True)]

    def values(self, pointers: Sequence[str], at: str) -> list[str]:
        """The parts of a state in memory."""
        return [decode(d, f"{p}[{at}]")
                for d, p in zip(self.state, pointers, strict=True)]

    def _merged(self, pointers: Sequence[str], at: str,
                others: Sequence[str]) -> list[str]:
        """Lines that combine the states at `pointers` with the values `others`."""
        results = [f"m{k}" for k in range(len(self.state))]
        values = [f"s{k}" for k in range(len(self.state))]
        lines = [f"{v} = {text}" for v, text
                 in zip(values, self.values(pointers, at), strict=True)]
        parameters = self.merge.function.params
        arguments = dict(zip(parameters, (*values, *others), strict=True))
        lines += statements(self.merge, arguments, results, prefix="m_", calls=CALLS)
        for p, d, have, r in zip(pointers, self.state, self.merge.results, results,
                                 strict=True):
            lines.append(f"{p}[{at}] = {encode(d, cast(compute_dtype(have), d, r))}")
        return lines

    def functions(self, element: Sequence[str], elements: Sequence[str],
                  names: Sequence[str], dtypes: Sequence[np.dtype],
                  j: str = "j0 + l") -> list[str]:
        """Functions: reset a lane, add an element to it, combine two lanes.

        Parameters
        ----------
        element
            Lines that compute `elements`, of `dtypes`, at ``j``.
        names
            What these lines need.
        j
            The element's place, from ``j0`` and ``l``.
        """
        fill = [f"{p}[l] = {encode(d, literal(d, i.value))}" for p, d, i
                in zip(self.low, self.state, self.identity, strict=True)]
        values = [cast(compute_dtype(have), d, e) for e, have, d
                  in zip(elements, dtypes, self.state, strict=True)]
        lane = [f"j = {j}", *element, *self._merged(self.low, "l", values)]
        others = self.values(self.low, "b + l")
        return [
            *inlined(f"{self.tag}_fill", ["l", *self.low], fill),
            *inlined(f"{self.tag}_lane", ["l", *self.low, "j0", *names], lane),
            *inlined(f"{self.tag}_join", ["l", *self.top, "a", *self.low, "b"],
                     self._merged(self.top, "a + l", others))]

    def fill(self, pointers: Sequence[str], lanes: str = "") -> str:
        """A line that resets lanes."""
        return self._loop("fill", lanes, pointers)

    def lane(self, pointers: Sequence[str], lanes: str, start: str,
             names: Sequence[str], masked: bool = False) -> str:
        """A line that adds an element to each lane, from the one at `start`."""
        return self._loop("lane", lanes, (*pointers, start, *names), masked)

    def join(self, lanes: str = "") -> str:
        """A line that combines the first level into the second."""
        return self._loop("join", lanes, (*self.top, "0", *self.low, "0"))

    def _loop(self, function: str, lanes: str, names: Sequence[str],
              masked: bool = False) -> str:
        return loop(f"{self.tag}_{function}", "0", lanes or str(_LANES), names,
                    rolled=function == "fill", masked=masked)

    def segment(self, n: str, names: Sequence[str], costly: bool = False) -> list[str]:
        """Lines that fold ``n`` elements, `costly` ones, into the second level."""
        return [
            f"full = {n} & -{_LANES}", "done = 0", "while done < full:",
            f"    {self.fill(self.low)}",
            f"    stop = min(done + {_GROUP * _LANES}, full)",
            "    while done < stop:",
            f"        {self.lane(self.low, '', 'done', names)}",
            f"        done += {_LANES}", f"    {self.join()}",
            self.lane(self.top, f"{n} - full", "full", names, costly)]

    def total(self) -> str:
        """A line that combines the lanes pairwise into lane 0."""
        return f"join_lanes({self.tag}_join, {_LANES}, {packed(self.top)})"

    def whole(self, n: str, names: Sequence[str], costly: bool = False) -> list[str]:
        """Lines that fold ``n`` elements, `costly` ones, into lane 0."""
        return [self.fill(self.top), *self.segment(n, names, costly), self.total()]
