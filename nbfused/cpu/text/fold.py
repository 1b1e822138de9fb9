"""Text that folds many elements into one state, in vectors and in a fixed order.

A float sum may not be reordered by the compiler, so the order is chosen here: `lanes`
independent states next to each other, lane ``l`` combining the elements ``l``,
``l + lanes``, …; where these are many, every 32 of them go to a second level, and in
the end the lanes are combined pairwise.  The order depends on dtypes and the number of
elements alone, neither on the threads nor on the processor, and errors grow like those
of pairwise summation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...scalar.ir.nodes import Let, Literal
from ...scalar.printing.numba import cast, decode, encode, literal, statements
from ...scalar.typing.types import Typed, compute_dtype
from ...support.dtypes import short
from .function_names import CALLS
from .lines import indented, inlined, local, loop, packed
from .reuse import is_cheap, is_straight

__all__ = ["FIRST", "FIRST_LANE", "Fold", "merged", "sum_text"]

#: Vectors of lanes: with 2 sums wait for one another, with 8 there are too few
#: registers and masks.  benchmarks/notes/cpu.md#rows-and-reductions-on-the-cpu.
_VECTORS = 4

#: Lanes at most in a vector of narrow states.
_WIDEST = 16

#: A parameter of an element's function: the index of the element that the first of the
#: lanes has, in whose place a lane keeps its state; the number of the lane is added in
#: the end.  Vectors of indices would be made of numbers:
#: benchmarks/notes/cpu.md#rows-and-reductions-on-the-cpu.
FIRST = "reduced_first"

#: What it is where lanes lie along elements.
FIRST_LANE = "j0"

#: The place of a lane's element where lanes lie along elements.
_ALONG = f"{FIRST_LANE} + l"

#: Elements that a lane combines before its state goes to the second level; not
#: measured.
_GROUP = 32


def sum_text(dtype: np.dtype, a: str, b: str) -> str:
    """The text of ``a + b`` in `dtype`."""
    return f"{short(dtype)}({a} + {b})"


def merged(merge: Typed, state: Sequence[np.dtype], values: Sequence[str],
           others: Sequence[str], prefix: str) -> list[str]:
    """Lines that combine the parts `values` of a state with `others`, in its dtypes."""
    results = [f"{prefix}{k}" for k in range(len(values))]
    # A maximum asks whether its first operand is NaN: of an element that is known
    # before the state.
    extreme = [s.op for s in merge.function.body.statements
               if isinstance(s, Let)] in (["max"], ["min"])
    both = (*others, *values) if extreme else (*values, *others)
    lines = statements(merge, dict(zip(merge.function.params, both, strict=True)),
                       results, prefix=f"{prefix}_", calls=CALLS)
    return [*lines, *(f"{v} = {cast(compute_dtype(have), d, r)}" for v, d, have, r
                      in zip(values, state, merge.results, results, strict=True))]


def _number(lanes: str) -> str:
    """Text of a number of lanes as a float: LLVM makes masks of integers in 64 bits.

    benchmarks/notes/cpu.md#rows-across
    """
    return cast(np.dtype(np.int64), np.dtype(np.float32), lanes)


class Fold:
    """Functions and lines that fold elements into a state.

    Parameters
    ----------
    tag
        Begins the names of the functions.
    state, identity, merge
        As in `TypedReduce`.
    element
        What computes elements.
    vector
        Bytes of a vector: `reuse.vector_bytes`.
    """

    def __init__(self, tag: str, state: Sequence[np.dtype], identity: Sequence[Literal],
                 merge: Typed, element: Typed, vector: int) -> None:
        self.tag = tag
        self._straight = is_straight(element) and is_cheap(merge)
        self._cheap = is_cheap(element)
        self._of_first = FIRST in element.function.params
        self.width = min(_WIDEST, vector // max(d.itemsize for d in state))
        self.lanes = _VECTORS * self.width
        self.state = tuple(state)
        self.identity = tuple(identity)
        self.merge = merge
        self.top = tuple(f"{tag}_t{k}" for k in range(len(self.state)))
        self.low = tuple(f"{tag}_b{k}" for k in range(len(self.state)))

    def locals(self, count: int = 0) -> list[str]:
        """Lines that reserve both levels of lanes, `count` states each."""
        return [local(name, dtype, count or self.lanes)
                for names in (self.top, self.low)
                for name, dtype in zip(names, self.state, strict=True)]

    def values(self, pointers: Sequence[str], at: str) -> list[str]:
        """The parts of a state in memory."""
        return [decode(d, f"{p}[{at}]")
                for d, p in zip(self.state, pointers, strict=True)]

    def _merged(self, pointers: Sequence[str], at: str, others: Sequence[str],
                element: Sequence[str] = (), test: str = "") -> list[str]:
        """Lines that combine the states at `pointers` with the values `others`.

        The lines of `element` give these; states stay where a `test` fails.
        """
        values = [f"s{k}" for k in range(len(self.state))]
        lines = [*element, *merged(self.merge, self.state, values, others, "m")]
        return [*(f"{v} = {text}" for v, text in zip(
                    values, self.values(pointers, at), strict=True)),
                *([f"if {test}:", *indented(lines)] if test else lines),
                *(f"{p}[{at}] = {encode(d, v)}" for p, d, v in zip(
                    pointers, self.state, values, strict=True))]

    def functions(self, element: Sequence[str], elements: Sequence[str],
                  names: Sequence[str], dtypes: Sequence[np.dtype],
                  j: str = _ALONG) -> list[str]:
        """Functions: reset a lane, add an element to it, combine two lanes.

        Along elements there is one, too, that adds an element if it is of the `rest`.

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
        element = [f"j = {j}", *element]
        others = self.values(self.low, "b + l")
        moved = [f"{p}[l] = {cast(np.dtype(np.int64), d, f'{p}[l] + l')}"
                 for p, d in zip(self.top, self.state, strict=True)]
        return [
            *inlined(f"{self.tag}_fill", ["l", *self.low], fill),
            *inlined(f"{self.tag}_lane", ["l", *self.low, "j0", *names],
                     self._merged(self.low, "l", values, element)),
            *(inlined(f"{self.tag}_rest", ["l", *self.low, "rest", "j0", *names],
                      self._merged(self.low, "l", values, element,
                                   f"{_number('l')} < rest"))
              if self._straight and j == _ALONG else ()),
            *(inlined(f"{self.tag}_move", ["l", *self.top], moved)
              if self._of_first and j == _ALONG else ()),
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
        return loop(f"{self.tag}_{function}", "0", lanes, names, masked=masked) \
            if lanes else self._vectors(function, self.lanes, names)

    def _vectors(self, function: str, lanes: int, names: Sequence[str]) -> str:
        """A line that calls a function for the first `lanes`, in vectors."""
        return (f"for_lanes({self.tag}_{function}, {lanes}, {self.width}, "
                f"{packed(names)})")

    def segment(self, n: str, names: Sequence[str]) -> list[str]:
        """Lines that fold ``n`` elements into the second level."""
        return [*self._start(n), *self._groups(names), *self._rest(n, names)]

    def whole(self, n: str, names: Sequence[str]) -> list[str]:
        """Lines that fold ``n`` elements into lane 0, as `segment` does.

        A single group goes to the second level at once.
        """
        return [self.fill(self.top), *self._start(n),
                f"if full <= {_GROUP * self.lanes}:", *indented(
                    self._lanes(self.top, "full", names)), "else:",
                *indented(self._groups(names)), *self._rest(n, names),
                *[self._loop("move", "", self.top)]*self._of_first, self.total()]

    def _start(self, n: str) -> list[str]:
        return [f"full = {n} & -{self.lanes}", "done = 0"]

    def _groups(self, names: Sequence[str]) -> list[str]:
        return ["while done < full:", *indented([
            self.fill(self.low), f"stop = min(done + {_GROUP * self.lanes}, full)",
            *self._lanes(self.low, "stop", names), self.join()])]

    def _lanes(self, pointers: Sequence[str], stop: str, names: Sequence[str],
               ) -> list[str]:
        return [f"while done < {stop}:", *indented([
            self.lane(pointers, "", "done", names), f"done += {self.lanes}"])]

    def _rest(self, n: str, names: Sequence[str]) -> list[str]:
        """Lines that add the last elements, which are fewer than lanes.

        Where nothing branches, and merging is cheap, all lanes are stored, whether they
        have an element or not, and stay in registers.  Of elements that cost something
        no more are computed than a vector has: each vector goes to the first lanes.
        """
        if not self._straight:
            rest = self.lane(self.top, f"{n} - full", "full", names, True)
            return [f"if {n} > full:", f"    {rest}"]
        if self._cheap:
            rest = self._loop("rest", "", (
                *self.top, _number(f"{n} - full"), "full", *names))
            return [f"if {n} > full:", f"    {rest}"]
        lane = self._vectors("lane", self.width, (*self.top, "done", *names))
        rest = self._vectors("rest", self.width,
                             (*self.top, _number(f"{n} - done"), "done", *names))
        return ["done = full", f"while done + {self.width} <= {n}:",
                *indented([lane, f"done += {self.width}"]),
                f"if {n} > done:", f"    {rest}"]

    def total(self) -> str:
        """A line that combines the lanes pairwise into lane 0."""
        return (f"join_lanes({self.tag}_join, {self.lanes}, {self.width}, "
                f"{packed(self.top)})")
