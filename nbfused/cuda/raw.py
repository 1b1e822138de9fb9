"""`Raw` on CUDA: the user's grid of the user's blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..backend import Launcher, Signature
from ..gpu.operands import Operand, kernel_name
from ..gpu.raw_kernel import RawLauncher, raw_arguments
from ..gpu.raw_layout import BOUNDS, RawLayout
from ..scalar.printing.numba import Raw, cast
from ..scalar.typing.values import INT64
from ..specs.raw import TypedRaw
from ..support.dtypes import storage
from .runtime.compile import Kernel, ptx
from .runtime.driver import device
from .runtime.launch import Program
from .text.source import Source, printed

__all__ = ["RawText", "build_raw"]


class RawText:
    """Writes the kernel of a Raw.

    Attributes
    ----------
    layout
        Its arguments.
    """

    def __init__(self, typed: TypedRaw, signature: Signature) -> None:
        self.layout = RawLayout(typed, signature)

    def kernel(self, threads: int) -> Kernel:
        """The text for blocks of at most `threads`."""
        layout, typed = self.layout, self.layout.typed.function
        out = Source(kernel_name(typed.function.name))
        for o in layout.operands:
            out.pointer(o.pointer, storage(o.dtype))
        out.integer(*(f"n{k}" for k in range(len(layout.axes))),
                    *(f"s{o}_{k}" for o, k in layout.picks))
        arguments = raw_arguments(layout, _Writer(out))
        out(*printed(typed, arguments, (), "v_") or ["pass"])
        return out.kernel(threads)

    def texts(self) -> dict[str, Callable[[], str]]:
        """Functions that give the texts of the kernel, by their kinds."""
        kernel = self.kernel(BOUNDS[0])
        return {"numba": lambda: kernel.text,
                "ptx": lambda: ptx(kernel, device(0).arch)}


class _Writer:
    """`RawWriter` of Numba's Python."""

    def __init__(self, out: Source) -> None:
        self._out = out

    def scalar(self, number: int, dtype: np.dtype) -> str:
        return self._out.scalar(f"a{number}", dtype)

    def array(self, operand: Operand) -> Raw:
        strides = [operand.stride(k) for k in range(int(operand.code[1:]))]
        if operand.code[0] == "c":
            strides[-1] = "1"
        return Raw(operand.pointer, tuple(strides), operand.dtype)

    def place(self, word: str, dtype: np.dtype) -> str:
        text = "i64(32)" if word == "warpsize" else f"i64(cuda.{word})"
        return cast(INT64, dtype, text)

    def extent(self, number: int, dtype: np.dtype) -> str:
        return cast(INT64, dtype, f"n{number}")

    def shared(self, name: str, dtype: np.dtype, offset: int) -> None:
        self._out(f"{name} = shared_{storage(dtype)}({offset})")


def build_raw(spec: Any, signature: Signature) -> Launcher:
    """A launcher; what it launches is compiled, or loaded, at the first call."""
    typed = spec.typed(signature.inputs)
    return RawLauncher(RawText(typed, signature), spec.name, device, Program)
