"""Pairs ``(x, dx)`` among the arguments of a kernel's derivative."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from ..arrays import (
    Array,
    ByteRange,
    byte_range,
    describe,
    is_array,
    may_overlap,
    same_memory,
)
from ..autograd import Variable
from ..errors import KernelTypeError, OverlapError, ShapeError
from ..records import record
from .raw_arguments import Leaf, parts_of
from .views import Dual, fields_of, is_floating

__all__ = [
    "Pairs", "as_dual", "check_pair", "check_separate", "check_separate_duals",
    "is_pair", "plain",
]


class Pairs:
    """Takes the derivatives out of arguments, by name."""

    def __init__(self, kernel: str) -> None:
        self.kernel = kernel
        self.found: dict[str, Leaf] = {}

    def primal(self, name: str, value: Any, annotation: Any) -> Any:
        """`value` with arrays in place of pairs."""
        expected = fields_of(annotation)
        parts = parts_of(value)
        if expected and parts is None and isinstance(value, tuple) and \
                len(value) == len(expected):
            parts = dict(zip(expected, value, strict=True))
        if isinstance(value, Dual) and (dual := parts_of(value.primal)) is not None:
            value = parts = self.fields(name, dual, value.derivative)
        elif isinstance(value, Dual) or (expected is None and is_pair(value)):
            label, derivative = f"{name}[1]", plain(value[1])
            self.found[name] = Leaf(label, describe(derivative, label), derivative)
            return value[0]
        if parts is not None:
            return {n: self.primal(f"{name}.{n}", v, (expected or {}).get(n))
                    for n, v in parts.items()}
        return value

    def fields(self, name: str, primal: dict[str, Any],
               derivative: Any) -> dict[str, Any]:
        """The pairs of a pair of structs; a number or None has no derivative."""
        parts = parts_of(derivative) or {}
        if parts.keys() != primal.keys():
            raise KernelTypeError(
                f"{self.kernel}: '{name}' is a pair of structs, of which the second "
                f"must have the fields {', '.join(primal)}, got "
                f"{', '.join(parts) or type(derivative).__name__}")
        return {n: Dual(v, parts[n]) if parts_of(v) is not None or
                is_array(plain(parts[n])) else v for n, v in primal.items()}


def plain(value: Any) -> Any:
    """The array of a Variable."""
    return value.data if isinstance(value, Variable) else value


def is_pair(value: Any) -> bool:
    """Whether an argument is two arrays, one the derivative of the other."""
    return type(value) in (tuple, list) and len(value) == 2 and all(
        isinstance(v, Variable) or is_array(v) for v in value)


def as_dual(value: Any) -> Any:
    """A pair as what a rule by hand takes; anything else as it is."""
    return Dual(*value) if is_pair(value) else value


def check_pair(kernel: str, name: str, value: Array, other: Array) -> None:
    """Whether one array may be the derivative of another."""
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
    """Whether one of two arrays changes the other where it must not."""
    if a.other is None and b.other is None:  # otherwise as the kernel itself takes them
        return a.writes and b.writes and a.paired and b.paired and \
            may_overlap(a.array, b.array)
    in_place = a.other is not None and b.other is not None and \
        same_memory(a.other, b.other) and same_memory(a.array, b.array)
    if not (a.writes or b.writes) or (mode == "fwd" and in_place):
        return False
    return may_overlap(a.array, b.array)


def check_separate_duals(kernel: str, arguments: Mapping[str, Any]) -> None:
    """`check_separate` of ``bwd`` where a rule by hand takes the arguments."""
    leaves: list[Leaf] = []
    derivatives: dict[str, Leaf] = {}
    for name, given in arguments.items():
        primal, *rest = given if isinstance(given, Dual) else (given,)
        if is_array(plain(primal)):
            leaves.append(Leaf(name, describe(plain(primal)), primal))
            for d in rest:
                derivatives[name] = Leaf(name, describe(plain(d)), d)
    check_separate(kernel, "bwd", leaves, derivatives, [False] * len(leaves))
