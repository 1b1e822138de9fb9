"""`Raw` on ROCm: the user's grid of the user's blocks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..backend import Launcher, Signature
from ..gpu.operands import Operand, kernel_name
from ..gpu.raw_kernel import RawLauncher, raw_arguments
from ..gpu.raw_layout import BOUNDS, RawLayout
from ..scalar.printing.hip import Raw, cast, statements, storage_type
from ..scalar.typing.values import INT64
from ..specs import Raw as Spec
from ..specs.raw import TypedRaw
from .build.kernel import Kernel
from .runtime.device import device
from .runtime.launch import Program
from .text.early_exits import leaving
from .text.source import Source

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
        layout, typed = self.layout, leaving(self.layout.typed.function)
        out = Source(kernel_name(typed.function.name), "raw")
        for o in layout.operands:
            out.pointer(o.dtype)
        out.integers(len(layout.axes) + len(layout.picks))
        with out.block("template <class W> NBF_DEVICE void thread(const W &w)"):
            out("static_cast<void>(w);")
            arguments = raw_arguments(layout, _Writer(out, layout))
            out(*statements(typed, arguments, (),  # type: ignore[arg-type]
                            prefix="v_"))
        return out.kernel(threads, "thread(w)")

    def texts(self) -> dict[str, Callable[[], str]]:
        """Functions that give the texts of the kernel, by their kinds."""
        kernel = self.kernel(BOUNDS[0])
        return {"hip": lambda: kernel.text}


#: The places that are not called as in C++.
_PLACES = {"warpsize": "int64_t(32)", "laneid": "nbf::lane()"}


class _Writer:
    """`RawWriter` of C++."""

    def __init__(self, out: Source, layout: RawLayout) -> None:
        self._out, self._layout = out, layout

    def scalar(self, number: int, dtype: np.dtype) -> str:
        return self._out.scalar(dtype)

    def array(self, operand: Operand) -> Raw:
        kind, layout = storage_type(operand.dtype), self._layout
        self._out(f"{kind} *const {operand.pointer} = "
                  f"w.template pointer<{kind}>({operand.at});")
        first = len(layout.operands) + len(layout.axes)
        strides = [f"w.integer({first + k})"
                   for k, (at, _) in enumerate(layout.picks) if at == operand.at]
        if operand.code[0] == "c":
            strides.append("1")
        return Raw(operand.pointer, tuple(strides), operand.dtype)

    def place(self, word: str, dtype: np.dtype) -> str:
        return cast(INT64, dtype, _PLACES.get(word) or f"static_cast<int64_t>({word})")

    def extent(self, number: int, dtype: np.dtype) -> str:
        first = len(self._layout.operands)
        return cast(INT64, dtype, f"w.integer({first + number})")

    def shared(self, name: str, dtype: np.dtype, offset: int) -> None:
        kind = storage_type(dtype)
        self._out(f"{kind} *const {name} = nbf::shared_array<{kind}>({offset});")


def build_raw(spec: Spec, signature: Signature) -> Launcher:
    """A launcher; what it launches is compiled, or loaded, at the first call."""
    typed = spec.typed(signature.inputs)
    return RawLauncher(RawText(typed, signature), spec.name, device, Program)
