"""Lines of Python text: functions, loops, local arrays of a generated kernel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

__all__ = [
    "indented", "inlined", "invoke", "local", "loop", "short", "unravel",
]

_SHORT = {"bool": "b1", "bfloat16": "bf16"}


def short(dtype: np.dtype) -> str:
    """The name that intrinsics give a dtype: ``f32``, ``i64``, ``b1``, ``bf16``."""
    bits = dtype.itemsize * 8
    return _SHORT.get(dtype.name, f"{dtype.kind}{bits}")


def indented(lines: Iterable[str]) -> list[str]:
    """One level deeper."""
    return [f"    {line}" for line in lines]


def _packed(names: Iterable[str]) -> str:
    return f"({' '.join(f'{name},' for name in names)})"


def loop(function: str, begin: str, end: str, names: Iterable[str],
         rolled: bool = False) -> str:
    """A line that calls a function of the kernel's own for each index.

    A known small number of calls should be `rolled`: see `intrinsics`.
    """
    return (f"{'rolled_' * rolled}parallel_for({function}, {begin}, {end}, "
            f"{_packed(names)})")


def invoke(function: str, names: Iterable[str]) -> str:
    """A line that calls a function of the kernel's own."""
    return f"call({function}, {_packed(names)})"


def unravel(flat: str, extents: Sequence[str], names: Sequence[str]) -> list[str]:
    """Lines that turn a flat C-order index into one index for each extent."""
    if len(names) < 2:
        return [f"{name} = {flat}" for name in names]
    lines, rest = [], flat
    for d in range(len(names) - 1, 0, -1):
        lines.append(f"{names[d]} = {rest} % {extents[d]}")
        lines.append(f"{names[0]} = {rest} // {extents[d]}")
        rest = names[0]
    return lines


def local(name: str, dtype: np.dtype, count: int) -> str:
    """A line that reserves room on the stack."""
    return f"{name} = {short(dtype)}_local({count})"


def inlined(name: str, parameters: Iterable[str], lines: Iterable[str]) -> list[str]:
    """A function of the kernel's own, which the compiler inlines."""
    return ["@inlined", f"def {name}({', '.join(parameters)}):",
            *(indented(lines) or ["    pass"]), ""]
