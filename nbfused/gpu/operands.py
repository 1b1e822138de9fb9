"""Operands: the arrays that a kernel reads and writes, by number.

Every kernel has the same order of parameters: pointers, extents, strides, numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..backend import Call
from ..scalar.printing.identifiers import identifier
from ..scalar.typing.promotion import Type
from ..support.records import record

__all__ = ["ACCESS", "Operand", "all_arguments", "are_aligned", "kernel_name",
           "operand_list", "width_of"]

#: Bytes that one thread moves in one access.
ACCESS = 16
#: Elements of an access at most: the function is printed, or unrolled, for each.
MOST = 8
_NO_NAME = re.compile(r"\W+", re.ASCII)  # PTX takes no other letters


def kernel_name(*parts: str) -> str:
    """A name for profilers, which is an identifier, whatever the function's is.

    Examples
    --------
    >>> [kernel_name(*parts) for parts in (("x*y", "row"), ("_",), ("2x",))]
    ['x_y_row', 'unnamed', '_2x']
    """
    return identifier(_NO_NAME.sub("_", "_".join(parts)).strip("_")[:80])


@record(frozen=True)
class Operand:
    """An array of a kernel.

    Attributes
    ----------
    at
        Its number.
    dtype
        Of its elements.
    code
        Its stride in the innermost loop: ``"1"``, ``"0"`` or ``"s"``.
    """

    at: int
    dtype: np.dtype
    code: str

    @property
    def pointer(self) -> str:
        """The name of its pointer."""
        return f"p{self.at}"

    def stride(self, loop: int) -> str:
        """The name of its stride in a loop, where strides have names."""
        return f"s{self.at}_{loop}"


def operand_list(dtypes: Sequence[Type], codes: Sequence[str]) -> list[Operand]:
    """Operands numbered in order."""
    return [Operand(k, np.dtype(d), c)  # type: ignore[arg-type]  # arrays, not numbers
            for k, (d, c) in enumerate(zip(dtypes, codes, strict=True))]


def width_of(operands: Iterable[Operand]) -> int:
    """Elements per access so that the widest operand moves `ACCESS` bytes."""
    widest = max((o.dtype.itemsize for o in operands), default=ACCESS)
    return max(1, min(MOST, ACCESS // widest))


def are_aligned(call: Call, operands: Iterable[Operand], width: int,
                loops: Iterable[int]) -> bool:
    """Whether all accesses of `width` neighbours are aligned, for steps along `loops`.

    `width` elements of each operand take a power of two of bytes.
    """
    steps = list(loops)
    for o in operands:
        strides = call.strides[o.at]
        if (call.pointers[o.at] & (o.dtype.itemsize*width - 1)
                or any(strides[k] % width for k in steps)):
            return False
    return True


def all_arguments(call: Call, workspace: Sequence[int] = ()) -> tuple[Any, ...]:
    """Addresses, extents, every stride of every operand, numbers.

    Addresses in a workspace come after those of the operands.
    """
    return (*call.pointers, *workspace, *call.shape,
            *[s for strides in call.strides for s in strides], *call.scalars)
