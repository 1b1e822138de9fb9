"""States of reductions: combined within a thread, a warp and a block.

All threads of a block run these lines together: nothing here may stand in a branch
that only some of them take.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...scalar.ir.nodes import Literal
from ...scalar.printing.numba import cast, decode, encode
from ...scalar.printing.numba_operations import Calls
from ...scalar.typing.promotion import compute_dtype
from ...scalar.typing.types import Typed
from ...support.dtypes import storage
from .source import CALLS, Source, evaluate, number, printed

__all__ = ["WARP", "Reduced", "States", "across_threads", "storage_name"]

WARP = 32


class States:
    """Writes what is done with the state of one reduction.

    Parameters
    ----------
    merge
        Two states to one.
    identity
        The neutral element's parts.
    dtypes
        Of the parts.
    tag
        Makes the names of this reduction unique in the kernel.
    calls
        Functions of the namespace for operations.
    """

    def __init__(self, merge: Typed, identity: Sequence[Literal],
                 dtypes: Sequence[np.dtype], tag: str, calls: Calls = CALLS) -> None:
        self.calls = calls
        self.merge_function, self.identity, self.tag = merge, identity, tag
        self.dtypes = tuple(dtypes)
        self._uses = 0

    def names(self, suffix: str = "") -> list[str]:
        """Names for a state's parts."""
        return [f"{self.tag}{k}{suffix}" for k in range(len(self.dtypes))]

    def start(self, out: Source, suffix: str = "") -> list[str]:
        """A state that is the identity."""
        names = self.names(suffix)
        out(*(f"{n} = {number(i)}" for n, i in zip(names, self.identity, strict=True)))
        return names

    def assign(self, out: Source, into: Sequence[str], typed: Typed,
               arguments: dict[str, object]) -> None:
        """``into = typed(arguments)``, cast to the state's dtypes."""
        self._uses += 1
        prefix = f"{self.tag}u{self._uses}_"
        same = all(compute_dtype(d) == s for d, s in
                   zip(typed.results, self.dtypes, strict=True))
        if same and (len(into) == 1 or not set(into) & set(arguments.values())):
            out(*printed(typed, arguments, into, prefix, self.calls))
            return
        lines, results = evaluate(typed, arguments, prefix, self.calls)
        out(*lines)
        out(*(f"{n} = {cast(compute_dtype(d), s, r)}" for n, d, s, r in
              zip(into, typed.results, self.dtypes, results, strict=True)))

    def unless(self, out: Source, names: Sequence[str], there: str) -> None:
        """Make a state the identity unless `there`."""
        out(*(f"{n} = {n} if {there} else {number(i)}"
              for n, i in zip(names, self.identity, strict=True)))

    def merge(self, out: Source, into: Sequence[str], a: Sequence[str],
              b: Sequence[str]) -> None:
        """``into = merge(a, b)``."""
        params = self.merge_function.function.params
        self.assign(out, into, self.merge_function,
                    dict(zip(params, (*a, *b), strict=True)))

    def tree(self, out: Source, into: Sequence[str],
             states: Sequence[Sequence[str]]) -> None:
        """Merge many states pairwise, then into `into`: rounding grows as a log."""
        level = list(states)
        while len(level) > 1:
            for a, b in zip(level[::2], level[1::2], strict=False):
                self.merge(out, a, a, b)
            level = level[::2]
        self.merge(out, into, into, level[0])

    def across_lanes(self, out: Source, names: Sequence[str], lanes: int) -> None:
        """Every lane of a group of `lanes` neighbours gets the group's state."""
        if lanes < 2:
            return
        out(f"mask = i64({lanes // 2})")
        with out.block("while mask > 0:"):
            other = [f"{n}_o" for n in names]
            out(*(f"{o} = shuffle_xor({n}, mask)"
                  for o, n in zip(other, names, strict=True)))
            if len(names) == 1:
                self.merge(out, names, names, other)
            else:  # the lower lane's state first, so that all lanes get the same bits
                low, high = [f"{n}_l" for n in names], [f"{n}_h" for n in names]
                out("upper = (thread & mask) != 0")
                for n, o, lo, hi in zip(names, other, low, high, strict=True):
                    out(f"{lo} = select(upper, {o}, {n})",
                        f"{hi} = select(upper, {n}, {o})")
                self.merge(out, names, low, high)
            out("mask = mask >> 1")

    def across_block(self, out: Source, names: Sequence[str], threads: int, *,
                     again: bool) -> None:
        """Every thread of the block gets the block's state; a power of two of them.

        `again`: the lines are in a loop, so the shared memory is used again.
        """
        across_threads(out, [(self, names)], threads, again=again)

    def room(self) -> str:
        """The end of the names of a place in shared memory, new for every use."""
        self._uses += 1
        return f"s{self._uses}"


#: Reductions and the names of their states.
Reduced = Sequence[tuple[States, Sequence[str]]]


def across_threads(out: Source, reduced: Reduced, threads: int, *,
                   again: bool) -> None:
    """`States.across_block` of several reductions, which wait for each other once."""
    for states, names in reduced:
        states.across_lanes(out, names, min(threads, WARP))
    warps = threads // WARP
    if warps <= 1:
        return
    places = [(n, f"{n}_{room}", d) for states, names in reduced
              for room in (states.room(),)
              for n, d in zip(names, states.dtypes, strict=True)]
    out(*(f"{s} = cuda.shared.array({warps}, {storage_name(d)})"
          for _, s, d in places))
    with out.block(f"if (thread & {WARP - 1}) == 0:"):
        out(*(f"{s}[thread >> 5] = {encode(d, n)}" for n, s, d in places))
    out("cuda.syncthreads()")
    out(*(f"{n} = {decode(d, f'{s}[thread & {warps - 1}]')}" for n, s, d in places))
    if again:
        out("cuda.syncthreads()")
    for states, names in reduced:
        states.across_lanes(out, names, warps)


#: How the namespace of kernels calls the dtypes that elements are moved as.
_SHORT = {"b": "u8", "i": "i", "u": "u", "f": "f", "c": "c"}


def storage_name(dtype: np.dtype) -> str:
    """The namespace's name of the dtype that `dtype` is kept as in memory."""
    kept = np.dtype(storage(dtype))
    return f"{_SHORT[kept.kind]}{kept.itemsize*8}"
