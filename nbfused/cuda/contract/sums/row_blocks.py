"""A matrix times few vectors: several rows of it at once, as one reduction.

Each row by itself would read all vectors again, which are more than the matrix brings.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from ....backend import Call
from ....gpu.row_layout import sum_of
from ....scalar.ir.nodes import Block, Function, Let
from ....scalar.typing.types import Typed
from ....specs import TypedReduce
from ....specs.vjp.functions import identity
from ....support.loop_nests import dense_strides
from ...map.of_arrays import Place
from ...reduce.of_arrays import ReduceOfArrays
from ...runtime.driver import Device
from ..text import ContractText
from .epilogue import EpilogueLauncher

__all__ = ["ROWS", "RowBlocks"]

#: Rows of a block: with two for up to eight vectors, tiles were faster,
#: benchmarks/notes/products.md#vectors.
ROWS = 4


class RowBlocks:
    """Products whose larger factor lies along k, for a number of vectors.

    Parameters
    ----------
    text
        Operands, loops and functions.
    larger
        The number of the larger factor.
    vectors
        Rows or columns of the other one.
    """

    def __init__(self, text: ContractText, larger: int, vectors: int) -> None:
        self._text, self._larger, self._vectors = text, larger, vectors
        function = text.typed.epilogue.function
        self._direct = not text.typed.kinds and len(text.outputs) == 1 and \
            not function.body.statements and text.outputs[0].dtype == text.kept
        self._reduce = ReduceOfArrays(f"{text.name}_vectors",
                                      _products(text.kept, vectors))
        self._epilogue = EpilogueLauncher(text)

    def __call__(self, call: Call, where: Device) -> None:
        """Launch on the call's stream, for a multiple of `ROWS` rows."""
        *result, _ = call.shape
        if self._direct:
            at = len(self._text.operands) - 1
            self._launch(call, (self._text.kept, call.pointers[at], call.strides[at]))
            return
        size = prod(result)*self._text.kept.itemsize
        with where.current(), where.workspace(size, call.stream) as sums:
            self._launch(call, (self._text.kept, sums, (*dense_strides(
                tuple(result)), 0)))
            self._epilogue(call, sums)

    def _launch(self, call: Call, output: Place) -> None:
        last = len(call.shape) - 1
        rows, columns = (last - 2 + self._larger, last - 1 - self._larger)
        matrix, vectors = (
            (o.dtype, call.pointers[o.at], call.strides[o.at])
            for o in (self._text.factors[self._larger],
                      self._text.factors[1 - self._larger]))
        shape = list(call.shape)
        shape[rows] //= ROWS
        shape[columns] = 1
        arrays = [*(_part(matrix, rows, k) for k in range(ROWS)),
                  *(_part(vectors, columns, k) for k in range(self._vectors))]
        outputs = [_part(_part(output, rows, k), columns, n)
                   for k in range(ROWS) for n in range(self._vectors)]
        every = [(d, p, tuple([ROWS*s if k == rows else s
                               for k, s in enumerate(strides)]))
                 for d, p, strides in (*arrays, *outputs)]
        self._reduce(call, tuple(shape), range(last), every[:len(arrays)],
                     every[len(arrays):])


def _part(place: Place, loop: int, number: int) -> Place:
    """The array that begins so far along a loop."""
    dtype, address, strides = place
    return dtype, address + number*strides[loop]*dtype.itemsize, strides


def _products(kept: np.dtype, vectors: int) -> TypedReduce:
    """The sums of products of each row with each vector."""
    left, right = ([f"{name}{k}" for k in range(count)]
                   for name, count in (("a", ROWS), ("b", vectors)))
    pairs = [(a, b) for a in left for b in right]
    states = [f"s{k}" for k in range(len(pairs))]
    others = [f"t{k}" for k in range(len(pairs))]
    product = _function("products", (*left, *right), "mul", pairs, kept)
    merge = _function("merge", (*states, *others), "add",
                      list(zip(states, others, strict=True)), kept)
    one, every = sum_of(kept), (kept,)*len(pairs)
    whole, zeros = identity(len(pairs)), one.identity*len(pairs)
    return replace(
        one, element=product, merge=merge, state=every, identity=zeros,
        post=Typed(whole, dict.fromkeys(whole.params, kept), every),
        kinds=("element",)*(ROWS + vectors), post_kinds=("state",)*len(pairs))


def _function(name: str, params: tuple[str, ...], op: str,
              pairs: list[tuple[str, str]], dtype: np.dtype) -> Typed:
    """The function that does an operation for each of some pairs."""
    results = tuple([f"y{k}" for k in range(len(pairs))])
    body = tuple([Let((y,), op, pair) for y, pair in zip(results, pairs, strict=True)])
    return Typed(Function(name, params, Block(body, results)),
                 dict.fromkeys((*params, *results), dtype), (dtype,)*len(pairs))
