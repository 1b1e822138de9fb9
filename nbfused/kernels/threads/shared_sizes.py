"""Sizes of shared arrays: one may take what a launch gives, all know their extents.

A kernel is compiled for each number of bytes, as for each frozen number: derivatives
put cotangents beside an array, and the backends lay out all that they need, by its
size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from ...errors import KernelTypeError, RangeError
from ...scalar.ir.clean import clean
from ...scalar.ir.nodes import Function, Let, Literal, literal, rewrite, walk
from ...support.dtypes import DTYPES

__all__ = ["with_shared_sizes"]

_NONE = (literal(0),)


def with_shared_sizes(function: Function, size: int) -> tuple[Function, int]:
    """Give the dynamic shared array its elements, and readers of extents numbers.

    The bytes that no such array has taken come along.

    Parameters
    ----------
    function
        A kernel; ``shared.array(0, dtype)`` has the extent 0 in it.
    size
        Bytes of dynamic shared memory.

    Raises
    ------
    KernelTypeError
        Several dynamic arrays.
    RangeError
        Not even one element fits in.
    """
    made = [s for s in walk(function.body) if isinstance(s, Let) and s.op == "shared"]
    if not made:
        return function, size
    dynamic = [s for s in made if s.args == _NONE]
    if len(dynamic) > 1:
        raise KernelTypeError(
            f"{_where(function, dynamic[1])}: a second array of dynamic shared memory; "
            f"the one of line {dynamic[0].line} has all of it, and in CUDA both begin "
            "at the same byte; make one, and give the other a fixed size or pass the "
            "first to the function that needs it")
    sized = {s.results[0]: _sized(function, s, size) for s in dynamic}
    shapes: dict[object, Let] = {
        s.results[0]: sized.get(s.results[0], s) for s in made}

    def known(s: Let) -> tuple[Let, ...]:
        if s.op == "shared":
            return (shapes[s.results[0]],)
        if s.op in ("extent", "stride") and s.args[0] in shapes:
            return (replace(s, op="id", args=(literal(_number(s, shapes)),), attr=""),)
        return (s,)

    made_known = clean(replace(function, body=rewrite(function.body, known)))
    return made_known, 0 if dynamic else size


def _sized(function: Function, s: Let, size: int) -> Let:
    """An array of as many elements as fit into `size` bytes."""
    dtype = DTYPES[str(s.attr)]
    count = size // dtype.itemsize
    if not count:
        raise RangeError(
            f"{_where(function, s)}: shared.array(0, {dtype.name!r}) takes what a "
            f"launch gives, and it gives shared_mem={size} bytes; expected "
            f"{dtype.itemsize} for each element: k(grid, block, args, shared_mem=...) "
            "or k[grid, block, stream, bytes](...)")
    return replace(s, args=(literal(count),))


def _number(s: Let, shapes: Mapping[object, Let]) -> int:
    """The extent along an axis, or the stride in bytes."""
    array = shapes[s.args[0]]
    shape, axis = _extents(array.args), int(str(s.attr))
    if s.op == "extent":
        return shape[axis]
    return prod(shape[axis + 1:])*DTYPES[str(array.attr)].itemsize


def _extents(values: Sequence[object]) -> list[int]:
    return [int(v.text) for v in values if isinstance(v, Literal)]


def _where(function: Function, s: Let) -> str:
    return f"{function.pyfile}:{s.line}: {function.name}"
