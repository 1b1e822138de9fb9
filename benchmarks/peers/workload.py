"""`Workload`: one row of the table, with its inputs and its aim."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["SIZE", "Input", "Workload", "labels", "normal", "squares"]

#: Bytes of an element; TensorFloat32 is stored as float32.
SIZE = {"float64": 8, "float32": 4, "tfloat32": 4, "bfloat16": 2, "float16": 2,
        "int32": 4}


@dataclass(frozen=True)
class Input:
    """A random input array: normal numbers, their squares, or labels.

    A `transposed` one is laid out with its last two axes swapped.  Further layouts are
    ``"strided"``, every second element along the last axis, ``"broadcast"`` along the
    first axis, and ``"unaligned"``, one element after where memory begins.
    """

    shape: tuple[int, ...]
    squared: bool = False
    classes: int = 0
    transposed: bool = False
    layout: str = ""


def normal(*shapes: tuple[int, ...]) -> tuple[Input, ...]:
    """An input of standard normal numbers."""
    return tuple(map(Input, shapes))


def squares(*shape: int) -> Input:
    """An input of squared normal numbers, like second moments."""
    return Input(shape, squared=True)


def labels(rows: int, classes: int) -> Input:
    """An input of integer labels."""
    return Input((rows,), classes=classes)


@dataclass(frozen=True)
class Workload:
    """One row of the table.

    Attributes
    ----------
    family
        What is computed, a function that each library knows in its own words; with
        `both`, its derivative too.
    inputs
        Its arguments; floats are stored as `dtype`.
    work
        Bytes that must be moved, or FLOP, of one call.
    bar
        The least ratio: the best peer's time over ours, or, where `against` is
        ``"ceiling"``, the share of the copy's or the product's rate.
    options
        Keywords of the family's function.
    """

    name: str
    family: str
    inputs: tuple[Input, ...]
    dtype: str
    work: float
    unit: str = "B"
    bar: float = 1.0
    against: str = "peer"
    both: bool = False
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def storage(self) -> str:
        """The dtype in which arrays are stored."""
        return "float32" if self.dtype == "tfloat32" else self.dtype

    @property
    def in_place(self) -> bool:
        """Whether it changes its arguments, so that libraries need copies."""
        return self.family == "adam_step"
