"""Raw kernels: what stands for their parameters, and their launches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ..backend import Call
from ..scalar.printing.printer import Raw
from .operands import Operand
from .programs import Programs
from .raw_layout import RawLayout, bound_of

__all__ = ["RawLauncher", "RawText", "RawWriter", "raw_arguments"]


class RawWriter(Protocol):
    """Declares the parameters of a raw kernel in a language of kernels."""

    def scalar(self, number: int, dtype: np.dtype) -> str:
        """A number of the call."""

    def array(self, operand: Operand) -> Raw:
        """An array of the call."""

    def place(self, word: str, dtype: np.dtype) -> str:
        """The value of a word such as ``"threadIdx.x"``."""

    def extent(self, number: int, dtype: np.dtype) -> str:
        """The extent of an array along an axis, see `RawLayout.axes`."""

    def shared(self, name: str, dtype: np.dtype, offset: int) -> None:
        """Declare a shared array that begins at an offset in bytes."""


def raw_arguments(layout: RawLayout, writer: RawWriter) -> dict[str, object]:
    """Texts that stand for the parameters of a raw kernel's function."""
    typed, function = layout.typed, layout.typed.function
    dtypes, numbers, operands = function.dtypes, 0, iter(layout.operands)
    found: dict[str, object] = {}
    for name, kind in zip(function.function.params, typed.kinds, strict=False):
        if kind == "scalar":
            found[name] = writer.scalar(numbers, dtypes[name])
            numbers += 1
        else:
            found[name] = writer.array(next(operands))
    for place in typed.places:
        found[place.name] = writer.place(place.word, dtypes[place.name])
    for k, extent in enumerate(typed.extents):
        found[extent.name] = writer.extent(k, dtypes[extent.name])
    for k, (array, offset) in enumerate(zip(typed.shared, layout.offsets, strict=True)):
        writer.shared(f"m{k}", array.dtype, offset)
        found[array.name] = Raw(f"m{k}", array.strides, array.dtype)
    return found


class RawText(Protocol):
    """The texts of one raw kernel."""

    layout: RawLayout

    def kernel(self, threads: int) -> Any:
        """The text for blocks of at most `threads`."""

    def texts(self) -> dict[str, Callable[[], str]]:
        """Functions that give the texts of the kernel, by their kinds."""


class RawLauncher:
    """Launches the kernel that is compiled for blocks of the given size.

    Parameters
    ----------
    text
        Of the kernel.
    name
        Of its function.
    device
        Gives the device of a number.
    program
        Makes a kernel's text a program.
    """

    def __init__(self, text: RawText, name: str, device: Callable[[int], Any],
                 program: Callable[[Any], Any]) -> None:
        self._text, self._name, self._device = text, name, device
        self._programs: Programs[int, Any] = Programs(program, text.kernel)
        self._last: tuple[Any, Any] | None = None

    def __call__(self, call: Call) -> None:
        """Launch on the call's stream."""
        where, layout = self._device(call.device), self._text.layout
        shared = layout.shared_of(call, self._name, where.label, where.shared_limit)
        program = self._programs[bound_of(call.block)]
        program.launch(where, call.stream, call.grid, layout.values(call), shared,
                       call.block)
        self._last = program, where

    def texts(self) -> dict[str, Callable[[], str]]:
        """Functions that give the texts of the kernel, by their kinds."""
        return self._text.texts()

    def attributes(self) -> dict[str, int]:
        """Registers, memory and limits of the kernel that was launched last."""
        if self._last is None:
            return {}
        program, where = self._last
        found: dict[str, int] = program.attributes(where)
        return {**found, "shared_size_bytes":
                found["shared_size_bytes"] + self._text.layout.shared}
