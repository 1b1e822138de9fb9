"""Writing kernel text: operands, index arithmetic, loads and stores.

Every kernel has the same order of parameters: pointers, extents, strides, numbers.
Their names are `p0`, `n0`, `s0_1` (operand 0, loop 1) and `a0`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod

import numpy as np

from ...backend import Call
from ...gpu.operands import Operand
from ...scalar.ir.nodes import Let, Literal, walk
from ...scalar.printing.formulas import expand
from ...scalar.printing.numba import CUDA_CALLS, decode, literal, statements, stored
from ...scalar.printing.numba_operations import Calls
from ...scalar.typing.promotion import compute_dtype
from ...scalar.typing.types import Typed
from ...support.dtypes import DTYPES, HALVES, storage
from ...support.llvm.division import DIVISION_CALLS
from ..runtime.compile import DESCRIPTOR, Kernel
from .branches import flattened
from .functions import Function, Repeated, function_of

__all__ = ["CALLS", "LONGEST", "Source", "affordable", "calls_for", "decoded",
           "encoded", "evaluate", "inverses", "is_near", "is_wide", "number", "offsets",
           "printed", "statements_of"]

#: The largest number of 32 bits, and the numbers that 31 bits have.
_MOST, _NEAR = (1 << 32) - 1, 1 << 31
#: Statements that are worth the time to compile them.
LONGEST = 600
#: Lines that a function must spare to be worth its own compilation, 20 ms; a function
#: of fewer lines than the other number spares them nowhere.
SPARED, SHORTEST = 24, 6

#: Functions of the kernels' namespace for operations, by operation and dtype.
CALLS = {
    **CUDA_CALLS,
    **{("select", name): "select" for name in DTYPES}, **DIVISION_CALLS,
    **{(op, name): f"{op}imum" for op in ("max", "min")
       for name in ("float32", "float64")},
    **{("atomic_add", t.dtype.name): f"atomic_add_{t.short}" for t in HALVES},
    ("sigmoid", "float32"): "sigmoid",
}


#: The same where every result is rounded to 16 bits: a few units in the last place of
#: float32 do not show, and nothing branches.
ROUGH = {**CALLS, **{(op, "float32"): name for op, name in {
    "div": "divide_rough", "sqrt": "sqrt_rough", "exp": "exp_rough",
    "sigmoid": "sigmoid_rough", "erfc": "erfc_rough"}.items()}}


def calls_for(outputs: Iterable[Operand]) -> Calls:
    """The functions for a kernel that stores only these operands."""
    halves = all(o.dtype.itemsize == 2 and o.dtype.kind not in "iu" for o in outputs)
    return ROUGH if halves else CALLS


def statements_of(typed: Typed) -> int:
    """The length of a function as it is printed."""
    return sum(1 for _ in walk(expand(flattened(typed), CALLS).function.body))


def affordable(typed: Typed, width: int) -> int:
    """At most `width` elements per thread, fewer where the function is long."""
    found = walk(expand(flattened(typed), CALLS).function.body)
    if any(isinstance(s, Let) and s.op == "buffer" for s in found):
        return 1  # local memory is scarce
    length = statements_of(typed)
    while width > 1 and width*length > LONGEST:
        width //= 2
    return width


def is_wide(dtypes: Iterable[np.dtype]) -> bool:
    """Whether numbers take two registers each: more registers, then, not threads."""
    return any(d.kind in "fc" and d.itemsize >= 8 for d in dtypes)


class Source:
    """The text of one kernel, line by line.

    Parameters
    ----------
    name
        Of the kernel.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._pointers: list[str] = []
        self._integers: list[str] = []
        self._scalars: list[tuple[str, str]] = []
        self._names: list[str] = []
        self._lines: list[str | Repeated] = []
        self._functions: dict[Function, str] = {}
        self._depth = 1

    def descriptor(self, *names: str) -> None:
        """Declare parameters that are tensor maps, before anything else."""
        self._names += names
        self._pointers += (DESCRIPTOR,)*len(names)

    def pointer(self, name: str, kind: str) -> str:
        """Declare a parameter that is an address."""
        self._names.append(name)
        self._pointers.append(f"*{kind}")
        return name

    def integer(self, *names: str) -> None:
        """Declare int64 parameters, after all pointers."""
        self._integers += names

    def scalar(self, name: str, dtype: np.dtype) -> str:
        """Declare a call-time number; returns the text of its value."""
        self._scalars.append((name, storage(dtype)))
        return decode(dtype, name)

    def __call__(self, *lines: str) -> None:
        """Append lines at the present depth."""
        self._lines += ["    " * self._depth + line for line in lines]

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """A compound statement."""
        self(head)
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    @contextmanager
    def repeated(self, results: Sequence[str],
                 tuples: Sequence[str] = ()) -> Iterator[None]:
        """Statements of a ``with`` block that others repeat, under other names.

        Parameters
        ----------
        results
            The names that what follows reads; may be filled in the block.
        tuples
            Names of tuples, as `function_of` takes them.
        """
        begin = len(self._lines)
        yield
        lines, called = self._written(self._lines[begin:])
        if len(lines) < SHORTEST:
            return
        found = function_of([line[4*self._depth:] for line in lines], results,
                            tuples)
        if found is not None:
            self._lines[begin:] = [
                Repeated(tuple(lines), *found, tuple(results), tuple(called))]

    def _written(self, given: Sequence[str | Repeated],
                 ) -> tuple[list[str], dict[Function, None]]:
        """Lines, with calls of what is repeated among them, and what these call."""
        times = Counter(x.function for x in given if isinstance(x, Repeated))
        called: dict[Function, None] = {}
        lines: list[str] = []
        for x in given:
            if isinstance(x, str):
                lines.append(x)
                continue
            called |= dict.fromkeys(x.called)
            if x.spared(times[x.function]) < SPARED:
                lines += x.lines
            else:
                called[x.function] = None
                lines.append(x.call(self._functions.setdefault(
                    x.function, f"repeated{len(self._functions)}")))
        return lines, called

    def kernel(self, threads: int, blocks: int = 0, feature: str = "",
               cluster: int = 1) -> Kernel:
        """The kernel that was written, with its parameters in the common order."""
        names = [*self._names, *self._integers, *(n for n, _ in self._scalars)]
        lines, called = self._written(self._lines)
        functions = [line for f in called for line in f.text(self._functions[f])]
        text = "\n".join([*functions, f"def {self.name}({', '.join(names)}):", *lines])
        kinds = (*self._pointers, *("int64",) * len(self._integers),
                 *(k for _, k in self._scalars))
        return Kernel(self.name, text + "\n", kinds, threads, blocks, feature, cluster)


def number(value: Literal) -> str:
    """The text of a typed literal."""
    return literal(DTYPES[value.kind], value.value)


def decoded(dtype: np.dtype, text: str) -> str:
    """A stored element as a value that is computed with."""
    return decode(dtype, text)


def encoded(source: np.dtype, target: np.dtype, text: str) -> str:
    """A computed value of logical dtype `source` as an element stored as `target`."""
    return stored(compute_dtype(source), target, text)


def evaluate(typed: Typed, arguments: Mapping[str, object], prefix: str,
             calls: Calls = CALLS) -> tuple[list[str], list[str]]:
    """Statements that evaluate `typed`, and the names of its results."""
    results = [f"{prefix}r{k}" for k in range(len(typed.results))]
    return printed(typed, arguments, results, prefix, calls), results


def printed(typed: Typed, arguments: Mapping[str, object], results: Sequence[str],
            prefix: str, calls: Calls = CALLS) -> list[str]:
    """Statements that evaluate `typed` into the names `results`."""
    return statements(flattened(typed), arguments, results,  # type: ignore[arg-type]
                      prefix=prefix, calls=calls)


def is_near(call: Call, operands: Iterable[Operand]) -> bool:
    """Whether 31 bits number a call's points, and its elements of each operand."""
    return prod(call.shape) < _NEAR and all(
        sum((n - 1)*abs(s) for n, s in zip(call.shape, call.strides[o.at], strict=True))
        < _NEAR for o in operands)


def inverses(extents: Sequence[int]) -> list[int]:
    """Inverses of all extents but the first, which `offsets` multiplies by.

    As the kernels' `inverse`, which takes some twenty instructions of every thread.
    """
    return [_MOST // extent for extent in extents[1:]]


def offsets(out: Source, index: str, extents: Sequence[str],
            operands: Sequence[Operand], first: int, prefix: str, *,
            inner: str | None = None, short: bool = False) -> dict[int, str]:
    """The element offset of each operand at a flat C-order index.

    Parameters
    ----------
    index
        Text of a flat index over `extents`.
    extents
        Names of the extents, outermost first.
    first
        The number of the first of these loops, as strides count them.
    prefix
        Makes names unique.
    inner
        Text of the innermost coordinate's multiplier (elements per step), if not 1.
    short
        The index and all offsets have 31 bits, as `is_near` says.  Parameters named by
        the numbers of the loops, such as ``inverse1``, are the extents' `inverses`,
        which divide faster.
    """
    if not extents:
        return {operand.at: "i64(0)" for operand in operands}
    rest, places = index, []
    for loop in range(len(extents) - 1, 0, -1):
        extent = extents[loop]
        by = f"_short({rest}, {extent}, inverse{first + loop})" if short else \
            f"({rest}, {extent})"
        out(f"{prefix}q{loop} = divide{by}",
            f"{prefix}c{loop} = {rest} - {prefix}q{loop}*{extent}")
        places.append((loop, f"{prefix}c{loop}"))
        rest = f"{prefix}q{loop}"
    places.append((0, rest))
    found = {}
    for operand in operands:
        terms = []
        for loop, place in reversed(places):
            innermost = loop == len(extents) - 1
            if innermost and operand.code == "0":
                continue
            scaled = f"({place})*{inner}" if innermost and inner else place
            terms.append(scaled if innermost and operand.code == "1"
                         else f"({scaled})*{operand.stride(first + loop)}")
        at = " + ".join(terms) or "i64(0)"
        found[operand.at] = f"short({at})" if short else at
    return found
