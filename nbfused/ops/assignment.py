"""Arrays with other numbers at an index: what assignment to it would leave."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ..arrays import dtype_of
from ..arrays.creation import array_like
from ..arrays.traced import Traced, extents
from ..autograd import Variable, apply
from ..autograd.graph import COPY
from ..autograd.numpy_api.integers import check_integer
from ..errors import KernelTypeError, ShapeError
from ..op import AnyArray, Case, Operand, op
from ..op.base import check_array, check_operand, is_number
from ..scalar.ir.build import Builder
from ..scalar.ir.nodes import Function
from ..scalar.ir.nodes import Value as Scalar
from ..scalar.language.names import load
from ..scalar.language.threads import atomic
from ..scalar.parse.functions import parse, parse_definition
from ..specs import Map
from ..specs.base import Shape
from ..specs.vjp.functions import compose
from ..specs.windows import Place, Windows
from ..support.dtypes import rank_of
from .advanced_indexing import Chosen, choose, is_advanced
from .arithmetic import add
from .comparison import greater, where
from .gathers import held
from .indexing import Window, basic_index, getitem
from .shapes import apply_view, astype, broadcast_to, reshape

__all__ = ["add_at", "set_at"]


def add_elements(value, i, index, rows, block, out):
    """Add an element to its place in row `i`."""
    atomic.add(out, held(i, rows)*block + index % block, value)


def name_last(i, index, rows, out):
    """Keep the last of the points that name row `i`, counted from 1."""
    atomic.max(out, held(i, rows), index + 1)


def replaced(old, last, values, index, block):
    """The element of the last row that is given for this one, if there is one."""
    return load(values, max(last - 1, 0), index % block) if last > 0 else old


def _set_reference(x: Any, value: Any, index: Any) -> Any:
    made = x.copy()
    made[index] = value
    return made


def _add_reference(x: Any, value: Any, index: Any) -> Any:
    made = x.copy()
    np.add.at(made, index, value)
    return made


_BASIC, _LISTED = (slice(1, 3), -1), [3, 0, -1, 0]


@op(_set_reference, Case(((4, 6), (2,)), {"index": _BASIC}, dtypes="iuf"),
    Case(((4, 6), (4, 6)), {"index": _LISTED}, dtypes="if"))
def set_at(x: AnyArray, value: Operand, index: Any) -> AnyArray:
    """Make the array that ``x[index] = value`` would leave.

    Parameters
    ----------
    x : array
        It is not changed.
    value : array or number
        Broadcasts to ``x[index]``, but for axes of extent 1 in front; its dtype casts
        to that of `x` as "same_kind".
    index : index
        As for `getitem`: integers, slices, ``...``, None, integer arrays, lists, masks.

    Returns
    -------
    array
        Of the shape and dtype of `x`.  Where an index is there twice, the last of the
        values counts, on every backend.

    Raises
    ------
    RangeError
        An index is out of range (an `IndexError`).  On a GPU it is clamped, unless
        ``NBFUSED_DEBUG=1``.
    ShapeError
        `value` does not broadcast.
    KernelTypeError
        `value` does not cast, or the index is none.

    Notes
    -----
    In a fused function, and on Variables that are no leaves, it is
    ``x[index] = value``.

    Examples
    --------
    >>> import numpy as np
    >>> set_at(np.zeros(4), 5.0, [0, -1])
    array([5., 0., 0., 5.])
    """
    items, value = _checked(x, value, index, "set_at")
    if not any(map(is_advanced, items)):
        return _basic(x, items, value, given=True)
    chosen = choose(x, items, getitem)
    table = chosen.table(x, getitem)
    return _basic(x, chosen.slices, chosen.viewed(_set_rows(
        table, chosen.rows, _broadcast(chosen.values, value, x, "set_at"))))


@op(_add_reference, Case(((4, 6), (2,)), {"index": _BASIC}, dtypes="iuf"),
    Case(((4, 6), (4, 6)), {"index": _LISTED}, dtypes="if"))
def add_at(x: AnyArray, value: Operand, index: Any) -> AnyArray:
    """Make the array that ``numpy.add.at(x, index, value)`` would leave.

    Parameters
    ----------
    x : array
        It is not changed.
    value : array or number
        Broadcasts to ``x[index]``, and its dtype casts to that of `x` as "same_kind".
    index : index
        As for `getitem`.

    Returns
    -------
    array
        Of the shape and dtype of `x`.  Where an index is there twice, both values are
        added, in no order that is known; 16-bit floats are added in float32.

    Raises
    ------
    RangeError, ShapeError, KernelTypeError
        As for `set_at`.

    Examples
    --------
    >>> import numpy as np
    >>> add_at(np.zeros(4), np.array([1.0, 2.0, 3.0]), [0, 1, 1])
    array([1., 5., 0., 0.])
    """
    items, value = _checked(x, value, index, "add_at")
    if not any(map(is_advanced, items)):
        return _basic(x, items, add(getitem(x, items), value))
    chosen = choose(x, items, getitem)
    added = _added_rows(chosen, _broadcast(chosen.values, value, x, "add_at"))
    table = chosen.table(x, getitem)
    return _basic(x, chosen.slices, chosen.viewed(astype(
        add(table, reshape(added, extents(table))), dtype_of(x))))


def _checked(x: AnyArray, value: Any, index: Any, name: str) -> tuple[Any, Any]:
    """The items of the index, and the value in the dtype of `x`."""
    check_array(x, name, "x")
    check_operand(value, name, "value")
    dtype = dtype_of(x)
    value = check_integer(value, x, name, "value")
    given = np.result_type(dtype, value) if is_number(value) and not isinstance(
        value, Traced) else dtype if is_number(value) else dtype_of(value)
    if rank_of(given) > rank_of(dtype):
        raise KernelTypeError(f"{name}: 'value' has dtype {given}, which does not cast "
                              f"to {dtype} under 'same_kind'; use astype")
    items = index if isinstance(index, tuple) else (index,)
    return items, value if is_number(value) or given == dtype else astype(value, dtype)


def _array(value: Any, x: AnyArray) -> AnyArray:
    """A number as an array without dimensions beside `x`."""
    if not is_number(value):
        return value
    if isinstance(value, Traced):
        one = _array(1, x)
        return where(greater(one, 0), value, value, dtype=dtype_of(x))
    host = np.asarray(value, dtype_of(x))
    return x.constant(host) if isinstance(x, Traced) else array_like(
        host, x.data if isinstance(x, Variable) else x)


def _broadcast(placed: Any, value: Any, x: AnyArray, name: str) -> AnyArray:
    """The value in the shape of what the index chooses.

    As in NumPy's assignment it may have more axes, in front and of extent 1.
    """
    given = _array(value, x)
    try:
        return placed(given)
    except ShapeError as error:
        shape = extents(given)
        ones = next((k for k, n in enumerate(shape) if n != 1), len(shape))
        if name == "set_at":
            for k in range(1, ones + 1):
                with suppress(ShapeError):
                    return placed(reshape(given, shape[k:]))
        raise ShapeError(f"{name}: 'value' of shape {extents(value)} does not "
                         f"broadcast to what the index chooses: {error}") from error


def _basic(x: AnyArray, items: tuple[Any, ...], value: Any, given: bool = False,
           ) -> AnyArray:
    """``x[items] = value`` for integers, slices, ``...`` and None.

    A new array, also where `value`, which is `given` by the caller, is all of it.
    """
    windows, dropped, added = basic_index(items, extents(x))
    counts = tuple(len(range(*one)) for one in windows)
    shown = [n for k, n in enumerate(counts) if k not in dropped]
    for axis in added:
        shown.insert(axis, 1)
    whole = _broadcast(lambda v: v if extents(v) == tuple(shown) else broadcast_to(
        v, tuple(shown)), value, x, "set_at")
    new = reshape(whole, counts)
    made = with_slice(x, windows, new)
    if made is x or (given and made is new):
        (made,) = apply(COPY, (made,), dtypes=(dtype_of(x),))
    wrapped = isinstance(x, Variable) and not isinstance(made, (Variable, Traced))
    return Variable(made) if wrapped else made


def _set_rows(table: AnyArray, rows: Any, values: AnyArray) -> AnyArray:
    """The table with other rows: the last one that is given for each."""
    extent, rest = extents(table)[0], extents(table)[1:]
    count = prod(extents(rows))
    if not count or not extent:
        return apply(COPY, (table,), dtypes=(dtype_of(table),))[0]
    spec = Map(parse(name_last), ("element", "index", "scalar", "scatter"), (
        (extent,),))
    last = apply(spec, (reshape(rows, (count,)), extent),
                 dtypes=(np.dtype(np.int64),))[0]
    block = prod(rest)
    spec = Map(parse(replaced), ("element", "element", "raw", "index", "scalar"))
    made = apply(spec, (reshape(table, (extent, block)), reshape(last, (extent, 1)),
                        reshape(values, (count, block)), block))[0]
    return reshape(made, (extent, *rest))


def _added_rows(chosen: Chosen, values: AnyArray) -> AnyArray:
    """The sums of the values for each row of a table."""
    extent, count = prod(chosen.sizes), prod(extents(chosen.rows))
    block = prod(chosen.rest)
    spec = Map(parse(add_elements), (
        "element", "element", "index", "scalar", "scalar", "scatter"), (
            (extent*block,),))
    wide = broadcast_to(reshape(chosen.rows, (count, 1)), (count, block))
    return apply(spec, (reshape(values, (count, block)), wide, extent, block))[0]


def with_slice(whole: AnyArray, slices: tuple[Window, ...], new: AnyArray,
               ) -> AnyArray:
    """The array with other numbers in the slices of its axes."""
    shape = extents(whole)
    counts = tuple(len(range(*one)) for one in slices)
    if 0 in counts:
        return whole
    if counts == shape and all(step == 1 for _, _, step in slices):
        return new
    if any(step < 0 for _, _, step in slices):
        new = getitem(new, tuple(
            slice(None, None, -1 if step < 0 else 1) for _, _, step in slices))
        slices = tuple(_forwards(*one) for one in slices)
    steps = [step for n, (_, _, step) in zip(counts, slices, strict=True) if n > 1]
    if any(step != 1 for step in steps):
        return _interleaved(whole, slices, new)
    box = tuple((start, start + n) for n, (start, _, _) in zip(counts, slices,
                                                              strict=True))
    places = (Place(0), Place(0, tuple(lo for lo, _ in box)))
    spec = Map(_chosen(), ("inside", "window", "element"), (),
               Windows.of(places, [box], shape))
    return apply(spec, (new, whole), dtypes=(dtype_of(whole),))[0]


def _forwards(start: int, stop: int, step: int) -> Window:
    """The same elements of a slice, from the first to the last."""
    count = len(range(start, stop, step))
    return (start, stop, step) if step > 0 else (
        start + step*(count - 1), start + 1, -step)


def _interleaved(whole: AnyArray, slices: tuple[Window, ...], new: AnyArray,
                 ) -> AnyArray:
    """The array with other numbers at every so many elements."""
    shape = extents(whole)
    spread = apply_view(new, "unslice", (shape, slices))
    spec = Map(_on_lattice(shape, slices), ("index", "element", "element"))
    return apply(spec, (spread, whole), dtypes=(dtype_of(whole),))[0]


@lru_cache(maxsize=1)
def _chosen() -> Function:
    def build(b: Builder) -> tuple[Scalar, ...]:
        return (b.select("inside", "new", "old"),)

    return compose("store", ("inside", "new", "old"), build)


@lru_cache(maxsize=256)
def _on_lattice(shape: Shape, slices: tuple[Window, ...]) -> Function:
    """The function that takes the new number at the points of a slice."""
    tests, below = [], 1
    for n, (start, stop, step) in reversed([*zip(shape, slices, strict=True)]):
        count = len(range(start, stop, step))
        if count < n:
            at = f"(index // {below}) % {n}"
            last = start + step*(count - 1)
            tests.append(f"{at} >= {start} and {at} <= {last} and "
                         f"({at} - {start}) % {step} == 0")
        below *= n
    return parse_definition("def store(index, new, old):\n    return new if "
                            f"{' and '.join(tests) or 'True'} else old\n")

