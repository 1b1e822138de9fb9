"""`einsum`, `tensordot` and what is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from string import ascii_letters
from typing import Any

import numpy as np

from ...arrays import dtype_of
from ...errors import KernelTypeError, ShapeError
from ...scalar.typing.types import compute_dtype, promoted_dtype
from ..base import (
    as_arrays,
    axes_of,
    axis_of,
    converted,
    implements,
    ops,
    permuted,
    shape_of,
    stored,
)
from ..shapes import diagonal, moveaxis, ravel
from .stacks import conjugated

__all__: list[str] = []


@implements("dot")
def dot(a: Any, b: Any, out: Any = None) -> Any:
    """Matrix products, or sums of products along the last and the last but one axis."""
    a, b = as_arrays([a, b], "numpy.dot", weak=False)
    dims = len(shape_of(a)), len(shape_of(b))
    if 0 in dims:
        return ops.multiply(a, b, out=out)
    if dims[1] <= 2:
        return ops.matmul(a, b, out=out)
    return stored(tensordot(a, b, ((-1,), (-2,))), out)


@implements("vdot")
def vdot(a: Any, b: Any, /) -> Any:
    """The sum of products of all elements, the first ones conjugated."""
    a, b = map(ravel, as_arrays([a, b], "numpy.vdot", weak=False))
    return ops.matmul(conjugated(a), b)


@implements("inner")
def inner(a: Any, b: Any, /) -> Any:
    """Sums of products along the last axes."""
    a, b = as_arrays([a, b], "numpy.inner", weak=False)
    if not (shape_of(a) and shape_of(b)):
        return ops.multiply(a, b)
    return tensordot(a, b, ((-1,), (-1,)))


@implements("outer")
def outer(a: Any, b: Any, out: Any = None) -> Any:
    """Products of each element with each one."""
    a, b = as_arrays([a, b], "numpy.outer", weak=False)
    left, right = ops.reshape(a, (-1, 1)), ops.reshape(b, (1, -1))
    return ops.multiply(left, right, out=out)


@implements("linalg.outer")
def linalg_outer(x1: Any, x2: Any, /) -> Any:
    """The outer product of vectors."""
    for name, x in (("x1", x1), ("x2", x2)):
        if len(shape_of(x)) != 1:
            raise ShapeError(f"numpy.linalg.outer: '{name}' has shape {shape_of(x)}, "
                             "expected one dimension")
    return outer(x1, x2)


@implements("tensordot")
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """Sums of products along pairs of axes."""
    dims = len(shape_of(a)), len(shape_of(b))
    if np.ndim(axes) or isinstance(axes, (tuple, list)):
        left, right = (axes_of(k, n) for k, n in zip(axes, dims, strict=True))
    else:
        left = tuple(range(dims[0] - axes, dims[0]))
        right = tuple(range(axes))
    sizes = [tuple(shape_of(x)[k] for k in where)
             for x, where in ((a, left), (b, right))]
    if sizes[0] != sizes[1]:
        raise ShapeError(f"numpy.tensordot: axes {left} of 'a' have extents {sizes[0]},"
                         f" axes {right} of 'b' have {sizes[1]}; expected the same")
    rest = [[k for k in range(n) if k not in where]
            for n, where in zip(dims, (left, right), strict=True)]
    shapes = [tuple(shape_of(x)[k] for k in free)
              for x, free in zip((a, b), rest, strict=True)]
    inside = int(np.prod(sizes[0], dtype=int))
    first = ops.reshape(permuted(a, [*rest[0], *left]), (-1, inside) if inside else (
        int(np.prod(shapes[0], dtype=int)), 0))
    second = ops.reshape(permuted(b, [*right, *rest[1]]), (inside, -1) if inside else (
        0, int(np.prod(shapes[1], dtype=int))))
    return ops.reshape(ops.matmul(first, second), shapes[0] + shapes[1])


@implements("linalg.tensordot")
def array_tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    """`tensordot` as the array API standard names its parameters."""
    return tensordot(x1, x2, axes)


@implements("linalg.multi_dot")
def multi_dot(arrays: Any, *, out: Any = None) -> Any:
    """The product of several matrices, from the left."""
    return stored(reduce(ops.matmul, as_arrays(arrays, "numpy.linalg.multi_dot")), out)


@implements("kron")
def kron(a: Any, b: Any) -> Any:
    """Each element of `a` times all of `b`, in blocks."""
    a, b = as_arrays([a, b], "numpy.kron", weak=False)
    ndim = max(len(shape_of(a)), len(shape_of(b)))
    first, second = ((1,) * (ndim - len(shape_of(x))) + shape_of(x) for x in (a, b))
    spread = tuple(n for extent in first for n in (extent, 1))
    inside = tuple(n for extent in second for n in (1, extent))
    return ops.reshape(
        ops.multiply(ops.reshape(a, spread), ops.reshape(b, inside)),
        tuple(n * m for n, m in zip(first, second, strict=True)))


@implements("cross")
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1,
          axis: int | None = None) -> Any:
    """The vector product in two or three dimensions."""
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = moveaxis(a, axisa, -1), moveaxis(b, axisb, -1)
    sizes = shape_of(a)[-1], shape_of(b)[-1]
    if not {2, 3}.issuperset(sizes):
        raise ShapeError(f"numpy.cross: vectors of {sizes[0]} and {sizes[1]} elements, "
                         "expected 2 or 3")
    if sizes == (2, 2):
        return _minor(a, b, 0, 1)
    parts = [_minor(a, b, 1, 2), _minor(a, b, 2, 0), _minor(a, b, 0, 1)]
    return moveaxis(ops.stack(parts, axis=-1), -1, axisc)


@implements("linalg.cross")
def linalg_cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The vector product in three dimensions."""
    sizes = [shape_of(x)[axis_of(axis, len(shape_of(x)))] for x in (x1, x2)]
    if sizes != [3, 3]:
        raise ShapeError(f"numpy.linalg.cross: vectors of {sizes[0]} and {sizes[1]} "
                         "elements, expected 3")
    return cross(x1, x2, axis=axis)


def _minor(a: Any, b: Any, i: int, j: int) -> Any:
    """``a[..., i] * b[..., j] - a[..., j] * b[..., i]``; a third element may be 0."""
    terms = [(p, q) for p, q in ((i, j), (j, i))
             if p < shape_of(a)[-1] and q < shape_of(b)[-1]]
    made = [ops.multiply(ops.getitem(a, (..., p)), ops.getitem(b, (..., q)))
            for p, q in terms]
    if len(made) == 2:
        return ops.subtract(*made)
    if terms[0] == (i, j):
        return made[0]
    return ops.negative(made[0])


@implements("einsum")
def einsum(*operands: Any, out: Any = None, optimize: Any = False) -> Any:
    """Sums of products by labels of axes.

    Operands are contracted in pairs, each by one matrix product, in the order that
    `numpy.einsum_path` finds.
    """
    labels, wanted, arrays = _parsed(operands)
    arrays, kind = _of_one_kind(arrays)
    pairs = [_without_repeats(x, text) for x, text in zip(arrays, labels, strict=True)]
    for positions in _path(pairs, wanted):
        first, *taken = [pairs[k] for k in positions]
        pairs = [p for k, p in enumerate(pairs) if k not in positions]
        keep = set(wanted).union(*(text for _, text in pairs))
        for k, pair in enumerate(taken):
            later = (text for _, text in taken[k + 1:])
            first = _product(first, pair, keep.union(*later), kind)
        pairs.append(first)
    ((x, text),) = pairs
    x, text = _summed(x, text, set(wanted), kind)
    x = converted(permuted(x, [text.index(label) for label in wanted]), kind)
    return stored(x, out)


def _of_one_kind(arrays: Sequence[Any]) -> tuple[list[Any], np.dtype[Any]]:
    """The operands, and the dtype that NumPy computes in: the one common to all.

    A product of two has that dtype by itself; one of more begins with a narrower one.
    """
    arrays = as_arrays(arrays, "numpy.einsum", weak=False)
    kind = promoted_dtype(*map(dtype_of, arrays))
    return arrays if len(arrays) < 3 else [converted(x, kind) for x in arrays], kind


def _path(pairs: Sequence[tuple[Any, str]], wanted: str) -> list[tuple[int, ...]]:
    """The positions of the operands of each contraction, in order."""
    if len(pairs) < 3:
        return [tuple(range(len(pairs)))] * (len(pairs) > 1)
    shapes = [np.broadcast_to(0.0, shape_of(x)) for x, _ in pairs]
    text = ",".join(labels for _, labels in pairs) + "->" + wanted
    return [tuple(step) for step in np.einsum_path(text, *shapes,
                                                   optimize="greedy")[0][1:]]


def _parsed(operands: Sequence[Any]) -> tuple[list[str], str, list[Any]]:
    """Labels of each operand and of the result; ``...`` has labels of its own."""
    if not operands:
        raise KernelTypeError("numpy.einsum: no operands")
    text, arrays = (operands[0].replace(" ", ""), list(operands[1:])) if isinstance(
        operands[0], str) else _interleaved(operands)
    given, arrow, wanted = text.partition("->")
    parts = given.split(",")
    if len(parts) != len(arrays):
        raise ShapeError(f"numpy.einsum: {text!r} names {len(parts)} operands, got "
                         f"{len(arrays)}")
    free = [c for c in ascii_letters if c not in text]
    most = max((len(shape_of(x)) - len(part.replace("...", ""))
                for x, part in zip(arrays, parts, strict=True) if "..." in part),
               default=0)
    dots = "".join(free[:most])
    found = []
    for k, (x, part) in enumerate(zip(arrays, parts, strict=True)):
        count = len(shape_of(x)) - len(part.replace("...", ""))
        if count < 0 or (count and "..." not in part):
            raise ShapeError(f"numpy.einsum: operand {k} has shape {shape_of(x)}, "
                             f"which does not fit the labels {part!r}")
        found.append(part.replace("...", dots[most - count:]))
    if not arrow:
        once = sorted(c for c in set(given) - set(",.") if given.count(c) == 1)
        wanted = "..." + "".join(once)
    wanted = wanted.replace("...", dots)
    unknown = set(wanted) - set("".join(found))
    if unknown or len(set(wanted)) != len(wanted):
        raise ShapeError(f"numpy.einsum: the result {wanted!r} of {text!r} names a "
                         "label twice, or one that no operand has")
    return found, wanted, arrays


def _interleaved(operands: Sequence[Any]) -> tuple[str, list[Any]]:
    """The text of the form ``einsum(a, [0, 1], b, [1, 2], [0, 2])``."""
    def labels(axes: Any) -> str:
        return "".join("..." if k is Ellipsis else ascii_letters[k] for k in axes)

    count = len(operands) // 2
    arrays = [operands[2 * k] for k in range(count)]
    text = ",".join(labels(operands[2 * k + 1]) for k in range(count))
    if len(operands) % 2:
        text += "->" + labels(operands[-1])
    return text, arrays


def _without_repeats(x: Any, text: str) -> tuple[Any, str]:
    """An operand whose labels differ: the diagonal of equal ones."""
    for label in dict.fromkeys(text):
        while text.count(label) > 1:
            first = text.index(label)
            second = text.index(label, first + 1)
            if shape_of(x)[first] != shape_of(x)[second]:
                raise ShapeError(f"numpy.einsum: label {label!r} has extents "
                                 f"{shape_of(x)[first]} and {shape_of(x)[second]}")
            x = diagonal(x, 0, first, second)
            text = text[:first] + text[first + 1:second] + text[second + 1:] + label
    return x, text


def _summed(x: Any, text: str, keep: set[str],
            kind: np.dtype[Any]) -> tuple[Any, str]:
    """An operand summed over labels that nobody keeps, as wide as products are."""
    axes = tuple(k for k, label in enumerate(text) if label not in keep)
    return (ops.sum(x, axis=axes, dtype=compute_dtype(kind)), "".join(
        label for label in text if label in keep)) if axes else (x, text)


def _product(left: tuple[Any, str], right: tuple[Any, str],
             keep: set[str], kind: np.dtype[Any]) -> tuple[Any, str]:
    """The product of two operands, summed over labels that nobody keeps."""
    sizes = [dict(zip(text, shape_of(x), strict=True)) for x, text in (left, right)]
    for label in sizes[0].keys() & sizes[1].keys():
        if sizes[0][label] != sizes[1][label] and 1 not in (
                sizes[0][label], sizes[1][label]):
            raise ShapeError(f"numpy.einsum: label {label!r} has extents "
                             f"{sizes[0][label]} and {sizes[1][label]}")
    a, first = _summed(*_narrowed(*left, sizes[1]), keep | set(right[1]), kind)
    b, second = _summed(*_narrowed(*right, sizes[0]), keep | set(first), kind)
    a, first = _summed(a, first, keep | set(second), kind)
    made = "".join(dict.fromkeys(c for c in first + second if c in keep))
    if set(first + second) == set(made):
        return _multiplied(a, first, b, second, made), made
    return ops.contract(f"{first},{second}->{made}", a, b), made


def _narrowed(x: Any, text: str, other: dict[str, int]) -> tuple[Any, str]:
    """An operand without its axes of extent 1 that broadcast to the other's."""
    axes = [k for k, label in enumerate(text)
            if shape_of(x)[k] == 1 and other.get(label, 1) != 1]
    for k in reversed(axes):
        x = ops.squeeze(x, k)
    return x, "".join(label for k, label in enumerate(text) if k not in axes)


def _multiplied(a: Any, first: str, b: Any, second: str, made: str) -> Any:
    def spread(x: Any, text: str) -> Any:
        x = permuted(x, [text.index(label) for label in made if label in text])
        for k, label in enumerate(made):
            if label not in text:
                x = ops.expand_dims(x, k)
        return x

    return ops.multiply(spread(a, first), spread(b, second))
