"""Pairs ``(x, dx)`` among the arguments of a kernel's derivative."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from ...arrays import (
    Array,
    ByteRange,
    byte_range,
    describe,
    dtype_of,
    is_array,
    may_overlap,
    same_memory,
)
from ...autograd import Variable
from ...autograd.nodes import zeros
from ...errors import KernelTypeError, OverlapError, ShapeError
from ...support.dtypes import BFLOAT16
from ...support.records import record
from .arguments import Leaf, parts_of
from .views import Dual, fields_of, is_floating

__all__ = [
    "Pairs", "as_duals", "check_pair", "check_separate", "gradient_buffer",
    "in_dtypes_of", "is_pair", "label_of", "parts_in", "plain", "unpaired",
]


_FLOAT32 = np.dtype(np.float32)


class Pairs:
    """Takes the derivatives out of arguments, by name."""

    def __init__(self, kernel: str) -> None:
        self.kernel = kernel
        self.found: dict[str, Leaf] = {}

    def primal(self, name: str, value: Any, annotation: Any) -> Any:
        """`value` with arrays in place of pairs."""
        expected = fields_of(annotation)
        if expected is not None and _two_structs(value, expected):
            value = Dual(*value)
        if isinstance(value, Dual):
            parts = parts_in(value.primal, expected)
            if parts is None:
                return self.pair(name, value)
            value = self.split(name, value, parts,
                               parts_in(value.derivative, expected))
        elif expected is None and is_pair(value):
            return self.pair(name, Dual(*value))
        parts = parts_in(value, expected)
        if parts is None:
            return value
        found = {n: self.primal(label_of(name, n), v, (expected or {}).get(n))
                 for n, v in parts.items()}
        return tuple(found.values()) if _is_tuple(parts) else found

    def pair(self, name: str, value: Dual) -> Any:
        """Note the derivative; the array."""
        label, derivative = f"{name}[1]", plain(value.derivative)
        self.found[name] = Leaf(label, describe(derivative, label), derivative)
        return value.primal

    def split(self, name: str, value: Dual, primal: dict[Any, Any],
              derivative: dict[Any, Any] | None) -> Any:
        """The pairs of a pair of structs; a number or None has no derivative."""
        parts = derivative or {}
        if parts.keys() != primal.keys():
            what, names = ("tuples", f"length {len(primal)}") if _is_tuple(primal) \
                else ("structs", f"fields {', '.join(map(str, primal))}")
            raise KernelTypeError(
                f"{self.kernel}: '{name}' is a pair of {what}, of which the second "
                f"must have the {names}, got "
                f"{', '.join(map(str, parts)) or type(value.derivative).__name__}")
        found = {n: Dual(v, parts[n]) if parts_in(v, None) is not None or
                 is_array(plain(parts[n])) else v for n, v in primal.items()}
        return tuple(found.values()) if _is_tuple(primal) else found


def _two_structs(value: Any, expected: Mapping[str, Any]) -> bool:
    """True of a plain tuple of two structs with these fields."""
    return type(value) is tuple and len(value) == 2 and all(
        type(v) not in (tuple, list) and (parts_of(v) or {}).keys() ==
        expected.keys() for v in value)


def label_of(name: str, part: Any) -> str:
    """The name of a part of an argument, as the user writes it."""
    return f"{name}[{part}]" if isinstance(part, int) else f"{name}.{part}"


def parts_in(value: Any, expected: Any) -> dict[Any, Any] | None:
    """The fields of a struct by name, the parts of a tuple by number.

    A vector is one value.
    """
    if getattr(value, "__nbfused_vector__", False):
        return None
    if not isinstance(value, (tuple, list)) or hasattr(value, "_fields"):
        return parts_of(value)
    if expected and len(expected) == len(value):
        return dict(zip(expected, value, strict=True))
    return dict(enumerate(value))


def _is_tuple(parts: Mapping[Any, Any]) -> bool:
    return all(isinstance(n, int) for n in parts)


def as_duals(value: Any, annotation: Any) -> Any:
    """An argument as a rule by hand takes it: each pair is a `Dual`."""
    expected = fields_of(annotation)
    if isinstance(value, Dual):
        return value
    if expected is None and is_pair(value):
        return Dual(*value)
    parts = parts_in(value, expected)
    if parts is None:
        return value
    found = {n: as_duals(v, (expected or {}).get(n)) for n, v in parts.items()}
    return tuple(found.values()) if _is_tuple(parts) else found


def plain(value: Any) -> Any:
    """The array of a Variable."""
    return value.data if isinstance(value, Variable) else value


def is_pair(value: Any) -> bool:
    """True if an argument is two arrays, one the derivative of the other."""
    return type(value) in (tuple, list) and len(value) == 2 and all(
        isinstance(v, Variable) or is_array(v) for v in value)


def unpaired(value: Any) -> Any:
    """An argument without pairs but `Dual`: two arrays beside each other are two."""
    if is_pair(value):
        return Dual(tuple(value), (None, None))
    if type(value) in (tuple, list):
        return tuple(map(unpaired, value))
    return {n: unpaired(v) for n, v in value.items()} if type(value) is dict else value


def gradient_buffer(x: Any) -> Any:
    """Zeros to add to, float32 for 16-bit types, whose sums would round each time."""
    array = describe(x)
    narrow = array.dtype == np.float16 or array.dtype == BFLOAT16
    return zeros(array.shape, _FLOAT32 if narrow else array.dtype, x, array.device)


def in_dtypes_of(found: Mapping[str, Any], plain: Mapping[str, Any]) -> dict[str, Any]:
    """Gradients in the dtypes of their primals."""
    return {n: g if dtype_of(g) == dtype_of(plain[n]) else
            Variable(g).astype(dtype_of(plain[n])).data for n, g in found.items()}


def check_pair(kernel: str, name: str, value: Array, other: Array) -> None:
    """Refuse an array that cannot be the derivative of another."""
    if not is_floating(other.dtype):
        raise KernelTypeError(
            f"{kernel}: the derivative of '{name}' must be floating, got "
            f"{other.dtype}; convert it with astype")
    if other.shape != value.shape:
        raise ShapeError(f"{kernel}: '{name}' has shape {value.shape}, its "
                         f"derivative {other.shape}; pass arrays of one shape")


@record(frozen=True)
class _Use:
    """An array of a call.

    `paired` says whether it is part of a pair, `other` of what it is the derivative.
    """

    label: str
    array: Array
    place: ByteRange
    writes: bool
    paired: bool
    other: Array | None = None


def check_separate(kernel: str, mode: str, leaves: Sequence[Leaf],
                   derivatives: Mapping[str, Leaf], written: Sequence[bool]) -> None:
    """Check that no derivative shares memory with what is used besides.

    Parameters
    ----------
    kernel, mode
        ``"bwd"`` changes every derivative, ``"fwd"`` those of what is written.
    leaves, derivatives
        The arguments, and the derivatives by their names.
    written
        For each of the arguments, whether the kernel writes to it.

    Raises
    ------
    OverlapError
        Two of the arrays share memory, of which one is changed.
    """
    uses = []
    for leaf, writes in zip(leaves, written, strict=True):
        if type(leaf.value) is not Array:
            continue
        pair = derivatives.get(leaf.name)
        uses.append(_Use(f"'{leaf.name}'", leaf.value, byte_range(leaf.value), writes,
                         pair is not None))
        if pair is not None:
            uses.append(_Use(f"the derivative of '{leaf.name}'", pair.value,
                             byte_range(pair.value), writes or mode == "bwd", True,
                             leaf.value))
    for a, b in combinations(uses, 2):
        if a.place.overlaps(b.place) and _clash(mode, a, b):
            raise OverlapError(f"{kernel}: {a.label} and {b.label} share memory; pass "
                               "separate arrays")


def _clash(mode: str, a: _Use, b: _Use) -> bool:
    """True if one of two arrays changes the other where it must not."""
    if a.other is None and b.other is None:  # otherwise as the kernel itself takes them
        return a.writes and b.writes and a.paired and b.paired and \
            may_overlap(a.array, b.array)
    in_place = a.other is not None and b.other is not None and \
        same_memory(a.other, b.other) and same_memory(a.array, b.array)
    if not (a.writes or b.writes) or (mode == "fwd" and in_place):
        return False
    return may_overlap(a.array, b.array)
