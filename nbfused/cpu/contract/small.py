"""Batches of small products: an iteration of the inner loop is a whole product.

A call of BLAS takes as long as hundreds of multiplications, and a product of matrices
of three rows has 27.  Here a product is written out, with places that the compiler
knows, and the loop runs over the batch: it becomes vectors of products.  Where one
factor is the same for all, as a rotation of many points, the loop runs over the rows,
or columns, of the other.  benchmarks/notes/cpu.md#small-products
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...backend import Call, Signature, Start
from ...scalar.printing.numba import cast, decode, literal, stored
from ...scalar.typing.types import compute_dtype
from ...specs import TypedContract
from ..runtime.compile import build
from ..runtime.native import Fill, moved, native_of, with_native
from ..runtime.objects import Entry
from ..runtime.workspace import WORKSPACE
from ..short_rows import kernel_of_rows
from ..text.operands import Frame, Operand
from ..text.starts import start_of
from .direct import of_sums

__all__ = ["Finish", "SmallProducts", "is_identity", "small_products"]

#: Multiplications of a product, and terms of a sum, at most; multiplications of a row
#: by the factor that all rows have, and its columns; products along the inner loop at
#: least, and multiplications of a call that is worth a kernel for its shape:
#: benchmarks/notes/cpu.md#small-products
_LARGEST, _TERMS, _OF_ROW, _COLUMNS, _PRODUCTS, _LEAST = 128, 16, 64, 8, 16, 1 << 12

#: How many multiplications one of complex numbers, or of integers of which vectors have
#: many, takes as long to compile as: benchmarks/notes/cpu.md#small-products
_COSTLY = 4

#: Terms of a sum up to which rows of so many columns at least are written one by one:
#: it is the storing that takes the time.  benchmarks/notes/cpu.md#small-products
_FEW_TERMS, _LONG = 4, 64

#: Strides, in elements, that a kernel is compiled for; larger ones are its arguments.
#: Not measured, nor how many products a loop has at least.
_NEAR = 64


class Finish(NamedTuple):
    """An epilogue to bind, and the order in which it reads the sums.

    Attributes
    ----------
    bind
        Gives the start of the sums' address and those of the other arrays; compiles.
    strides
        Of the sums, along the loops over the batch, rows and columns.
    """

    bind: Callable[[], Start]
    strides: tuple[int, ...]


class _Matrix(NamedTuple):
    """An operand of each product.

    Attributes
    ----------
    steps
        Strides from one product to the next, down and along; None of one that each
        call gives.
    """

    name: str
    dtype: np.dtype
    rows: int
    columns: int
    steps: tuple[int | None, ...]

    @property
    def strides(self) -> tuple[str, ...]:
        """Names of the strides that each call gives."""
        return tuple(f"{self.name}_step{d}" for d, step in enumerate(self.steps)
                     if step is None)

    @property
    def is_common(self) -> bool:
        """Whether all products have it: it is loaded once."""
        return self.steps[0] == 0

    def elements(self) -> Iterator[tuple[str, str]]:
        """Name of each element, and text of its place in product ``j``."""
        for row, column in product(range(self.rows), range(self.columns)):
            terms = [f"{times}*{f'{self.name}_step{d}' if step is None else step}"
                     for d, (step, times) in enumerate(zip(
                         self.steps, ("j", row, column), strict=True)) if step != 0]
            place = " + ".join(terms) or "0"
            yield f"{self.name}{row}_{column}", f"{self.name}[{place}]"


class SmallProducts:
    """Kernels of small products, each compiled when first needed.

    Parameters
    ----------
    dtypes
        Of both factors, and of the result or the sums.
    accumulator
        The dtype of the sums.
    finished
        Whether the sums are the result.
    """

    def __init__(self, dtypes: Sequence[np.dtype], accumulator: np.dtype,
                 finished: bool) -> None:
        self._dtypes, self._accumulator = tuple(dtypes), accumulator
        self._finished = finished
        of_bytes = any(d.itemsize <= 2 and d.kind in "iu" for d in self._dtypes)
        self._cost = _COSTLY if accumulator.kind == "c" or of_bytes else 1
        self._kernels: dict[tuple[Any, ...], tuple[Entry, Frame]] = {}

    def bind(self, call: Call, finish_of: Callable[[Call], Finish]) -> Start | None:
        """Bind a call with its epilogue; None where its products are large or few."""
        if prod(call.shape) < _LEAST or call.shape[-1] > _TERMS:
            return None
        finish = None if self._finished else finish_of(call)
        into = finish.strides if finish else call.strides[2]
        loops = _loops(call.shape, into, self._cost)
        if loops is None:
            return None
        multiply = self._bound(call, loops, into)
        if finish is None:
            return multiply
        return _in_two(multiply, finish.bind(),
                       prod(call.shape[:-1])*self._accumulator.itemsize)

    def _bound(self, call: Call, loops: Sequence[int], into: tuple[int, ...]) -> Start:
        """Bind the products of these loops, whose results have the strides `into`."""
        rows, columns, terms = range(len(call.shape) - 3, len(call.shape))
        extents = {d: 1 if d in loops else call.shape[d]
                   for d in (rows, columns, terms)}
        matrices, given = [], []
        for name, dtype, strides, down, along in zip(
                ("left", "right", "out"), self._dtypes, (*call.strides[:2], into),
                (rows, terms, rows), (terms, columns, columns), strict=True):
            m, n = extents[down], extents[along]
            steps = (strides[loops[-1]], strides[down]*(m > 1), strides[along]*(n > 1))
            near = tuple(s if abs(s) <= _NEAR else None for s in steps)
            matrices.append(_Matrix(name, dtype, m, n, near))
            given += [s for s, known in zip(steps, near, strict=True) if known is None]
        key = (len(loops), *matrices)
        if key not in self._kernels:  # two threads may make it: no harm
            lines, frame = _text(matrices, self._accumulator, len(loops))
            self._kernels[key] = build("\n".join(lines)), frame
        shape = tuple(call.shape[d] for d in loops)
        of_loops = Call(shape, (), tuple(tuple(own[d] for d in loops) for own in (
            *call.strides[:2], into)))
        return start_of(*self._kernels[key], of_loops, tuple(given), prod(shape),
                        prod(extents.values()))


def is_identity(typed: TypedContract) -> bool:
    """Whether the sums are the result, and nothing else is given."""
    function = typed.epilogue.function
    return function.results == function.params and not function.body.statements


def small_products(typed: TypedContract, signature: Signature) -> SmallProducts | None:
    """The kernels of small products of a Contract; None of one that has none."""
    if any(typed.prologues) or signature.ranks[1:] != (1, 1, 1) or \
            typed.accumulator.kind not in "iufc":
        return None
    left, right = (np.dtype(dtype) for dtype in signature.inputs[:2])  # type: ignore[arg-type]
    if is_identity(typed):
        return SmallProducts((left, right, *signature.outputs), typed.accumulator, True)
    return SmallProducts((left, right, typed.accumulator), typed.accumulator, False)


def _loops(shape: tuple[int, ...], into: tuple[int, ...], cost: int,
           ) -> list[int] | None:
    """The loops over whole products, which are written out, and not over their parts.

    None where these are large, or few along the last loop; `cost` is how many others
    a multiplication takes as long to compile as.
    """
    *batch, m, n, k = shape
    rows, columns = len(batch), len(batch) + 1
    every = [*range(rows)]
    long = [d for d in every if shape[d] >= _PRODUCTS]
    if long and n <= _COLUMNS and m*n*k*cost <= _LARGEST:
        return [*(d for d in every if d != long[-1]), long[-1]]
    for inner, own, other in ((rows, m, n), (columns, n, m)):
        if own >= _PRODUCTS and other <= _COLUMNS and other*k*cost <= _OF_ROW:
            return [*every, inner]
    if k <= _FEW_TERMS:
        for inner, outer in ((columns, rows), (rows, columns)):
            if into[inner] == 1 and shape[inner] >= _LONG:
                return [*every, outer, inner]
    return None


def _text(matrices: Sequence[_Matrix], accumulator: np.dtype, rank: int,
          ) -> tuple[list[str], Frame]:
    """Lines of the kernel, and the layout of its arguments."""
    left, right, out = matrices
    before: list[str] = []
    lines: list[str] = []
    names: dict[str, None] = {}
    for each in (left, right):
        loads = before if each.is_common else lines
        for name, place in each.elements():
            value = cast(compute_dtype(each.dtype), accumulator,
                         decode(each.dtype, place))
            loads.append(f"{name} = {value}")
            if each.is_common:
                names[name] = None
    stores = []
    for (name, place), (row, column) in zip(
            out.elements(), product(range(out.rows), range(out.columns)), strict=True):
        total = literal(accumulator, 0)
        for term in range(left.columns):
            a, b = f"left{row}_{term}", f"right{term}_{column}"
            total = f"multiply_add({a}, {b}, {total})" if accumulator.kind == "f" \
                else f"{total} + {a}*{b}"
        lines.append(f"{name} = {total}")
        stores.append(f"{place} = {stored(accumulator, out.dtype, name)}")
    names |= dict.fromkeys(each.name for each in matrices if not each.is_common)
    strides = [name for each in matrices for name in each.strides]
    operands = [Operand(each.name, each.dtype, "1", rank, each is out)
                for each in matrices]
    frame = Frame(operands, rank, (), strides)
    shape = "x".join(map(str, (left.rows, right.columns, left.columns)))
    return kernel_of_rows(f"Products {shape}", (), [*lines, *stores],
                          [*names, *strides], frame, before), frame


def _in_two(multiply: Start, finish: Start, size: int) -> Start:
    """A start that makes sums in temporary memory, then the result of these."""
    def start(pointers: Sequence[int], scalars: tuple[Any, ...], stream: int) -> None:
        at, _owner = WORKSPACE.reserve(size)
        multiply((*pointers[:2], at), (), stream)
        finish((at, *pointers[2:]), scalars, stream)

    first, last = native_of(multiply), native_of(finish)
    if first is None or last is None:
        return start
    return with_native(start, [*moved(first, _into_sums), *moved(last, of_sums)], size)


def _into_sums(fill: Fill) -> Fill:
    """A pointer of the products: the last one is that of the sums."""
    return Fill(fill.word, "room") if fill.which == 2 else fill
