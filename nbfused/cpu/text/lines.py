"""Building blocks of generated text: functions, loops, local arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ...support.dtypes import short

__all__ = [
    "advance", "indented", "inlined", "invoke", "local", "loop", "packed", "unravel",
]


def indented(lines: Iterable[str]) -> list[str]:
    """Lines indented one level deeper."""
    return [f"    {line}" for line in lines]


def packed(names: Iterable[str]) -> str:
    """A tuple of names."""
    return f"({' '.join(f'{name},' for name in names)})"


def loop(function: str, begin: str, end: str, names: Iterable[str],
         rolled: bool = False, masked: bool = False, vectors: bool = False) -> str:
    """A line that calls one of the kernel's functions for each index.

    A known small number of calls should be `rolled`, functions that compute `masked`,
    with `vectors` where LLVM has to be told: see `intrinsics`.
    """
    kind = "rolled_" * rolled + "masked_" * masked + "vectors_" * vectors
    return f"{kind}parallel_for({function}, {begin}, {end}, {packed(names)})"


def invoke(function: str, names: Iterable[str]) -> str:
    """A line that calls one of the kernel's functions."""
    return f"call({function}, {packed(names)})"


def unravel(flat: str, extents: Sequence[str], names: Sequence[str]) -> list[str]:
    """Lines that split a flat C-order index into one index for each extent."""
    if len(names) < 2:
        return [f"{name} = {flat}" for name in names]
    lines, rest = [], flat
    for d in range(len(names) - 1, 0, -1):
        lines.append(f"{names[d]} = {rest} % {extents[d]}")
        lines.append(f"{names[0]} = {rest} // {extents[d]}")
        rest = names[0]
    return lines


def advance(extents: Sequence[str], names: Sequence[str]) -> list[str]:
    """Lines that move one index for each extent to the next point, in C order.

    A division for each row would take as long as a row of ten numbers.
    """
    lines = [f"{names[0]} += 1"]
    for name, extent in zip(names[1:], extents[1:], strict=True):
        lines = [f"{name} += 1", f"if {name} == {extent}:",
                 *indented([f"{name} = 0", *lines])]
    return lines


def local(name: str, dtype: np.dtype, count: int) -> str:
    """A line that reserves a local array on the stack."""
    return f"{name} = {short(dtype)}_local({count})"


def inlined(name: str, parameters: Iterable[str], lines: Iterable[str]) -> list[str]:
    """Lines of a kernel's function, which the compiler inlines."""
    return ["@inlined", f"def {name}({', '.join(parameters)}):",
            *(indented(lines) or ["    pass"]), ""]
