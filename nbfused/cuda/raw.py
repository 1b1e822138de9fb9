"""`Raw` on CUDA: the user's grid of the user's blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..backend import Call, Launcher, Signature
from ..raw_layout import BOUNDS, RawLayout, bound_of
from ..scalar.print_numba import Raw, cast
from ..specs.raw import TypedRaw
from .attributes import attributes
from .compile import Kernel, ptx
from .driver import Device, device
from .launch import Program, Programs
from .source import INT64, Operand, Source, kernel_name, printed, storage

__all__ = ["RawText", "build_raw"]


class RawText:
    """Writes the kernel of a Raw.

    Attributes
    ----------
    layout
        What it takes.
    operands
        The arrays.
    """

    def __init__(self, typed: TypedRaw, signature: Signature) -> None:
        self.typed = typed
        self.layout = RawLayout(typed, signature)
        self.operands = [Operand(k, dtype, code)
                         for k, (dtype, code) in enumerate(self.layout.arrays)]

    def kernel(self, threads: int) -> Kernel:
        """The text for blocks of at most `threads`."""
        typed = self.typed.function
        out = Source(kernel_name(typed.function.name))
        for o in self.operands:
            out.pointer(o.pointer, storage(o.dtype))
        out.integer(*(f"n{k}" for k in range(len(self.layout.axes))),
                    *(f"s{o}_{k}" for o, k in self.layout.picks))
        arguments = self._parameters(out)
        arguments |= self._launch_values(typed.dtypes)
        arguments |= self._shared(out)
        out(*printed(typed, arguments, (), "v_") or ["pass"])
        return out.kernel(threads)

    def _parameters(self, out: Source) -> dict[str, object]:
        typed, numbers = self.typed.function, 0
        found: dict[str, object] = {}
        operands = iter(self.operands)
        for p, kind in zip(typed.function.params, self.typed.kinds, strict=False):
            if kind == "scalar":
                found[p] = out.scalar(f"a{numbers}", typed.dtypes[p])
                numbers += 1
            else:
                found[p] = _array(next(operands))
        return found

    def _launch_values(self, dtypes: dict[str, np.dtype]) -> dict[str, object]:
        """Where a thread is, and the extents of arrays."""
        found: dict[str, object] = {}
        for place in self.typed.places:
            text = "i64(32)" if place.word == "warpsize" else f"i64(cuda.{place.word})"
            found[place.name] = cast(INT64, dtypes[place.name], text)
        for k, extent in enumerate(self.typed.extents):
            found[extent.name] = cast(INT64, dtypes[extent.name], f"n{k}")
        return found

    def _shared(self, out: Source) -> dict[str, object]:
        """One array after the other."""
        found: dict[str, object] = {}
        for k, (shared, offset) in enumerate(zip(
                self.typed.shared, self.layout.offsets, strict=True)):
            out(f"m{k} = shared_{storage(shared.dtype)}({offset})")
            found[shared.name] = Raw(f"m{k}", shared.strides, shared.dtype)
        return found


def _array(operand: Operand) -> Raw:
    rank = int(operand.code[1:])
    strides = [operand.stride(k) for k in range(rank)]
    if operand.code[0] == "c":
        strides[-1] = "1"
    return Raw(operand.pointer, tuple(strides), operand.dtype)


class RawLauncher:
    """Launches the kernel that is compiled for blocks of the given size."""

    def __init__(self, text: RawText, name: str) -> None:
        self._text, self._name = text, name
        self._programs: Programs[int] = Programs(text.kernel)
        self._last: tuple[Program, Device] | None = None

    def __call__(self, call: Call) -> None:
        """Launch on the call's stream."""
        where, layout = device(call.device), self._text.layout
        shared = layout.shared_of(call, self._name, f"cuda:{where.ordinal}",
                                  where.shared_limit)
        program = self._programs[bound_of(call.block)]
        program.launch(where, call.stream, call.grid, layout.values(call), shared,
                       call.block)
        self._last = program, where

    def texts(self) -> dict[str, Callable[[], str]]:
        """How to get the text of what is compiled, by its kind."""
        kernel = self._text.kernel(BOUNDS[0])
        return {"numba": lambda: kernel.text,
                "ptx": lambda: ptx(kernel, device(0).arch)}

    def attributes(self) -> dict[str, int]:
        """What the driver knows of the kernel that was launched last."""
        if self._last is None:
            return {}
        program, where = self._last
        with where.current():
            found = attributes(program.function(where))
        return {**found, "shared_size_bytes":
                found["shared_size_bytes"] + self._text.layout.shared}


def build_raw(spec: Any, signature: Signature) -> Launcher:
    """A launcher; what it launches is compiled, or loaded, at the first call."""
    typed = spec.typed(signature.inputs)
    return RawLauncher(RawText(typed, signature), spec.name)
