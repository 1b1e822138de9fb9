"""`Raw` on CUDA: the user's grid of the user's blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from ..backend import Call, Launcher, Signature
from ..errors import RangeError
from ..scalar.print_numba import Raw, cast
from ..specs.raw import Shared, TypedRaw
from .attributes import attributes
from .compile import Kernel, ptx
from .driver import Device, device
from .launch import Program
from .source import INT64, Operand, Source, kernel_name, printed, storage

__all__ = ["RawText", "build_raw"]

#: Threads that a kernel is compiled for: fewer of them may have more registers.
BOUNDS = (256, 512, 1024)
#: Shared arrays begin at multiples of this many bytes.
_ALIGN = 16


class RawText:
    """Writes the kernel of a Raw.

    Attributes
    ----------
    operands
        The arrays.
    axes
        Which extents the kernel takes: (array, axis).
    shared
        Bytes of shared memory.
    """

    def __init__(self, typed: TypedRaw, signature: Signature) -> None:
        self.typed, self.signature = typed, signature
        dtypes = [t for t, k in zip(signature.inputs, typed.kinds, strict=True)
                  if k == "array"]
        self.operands = [Operand(k, np.dtype(d), c)  # type: ignore[arg-type]  # arrays
                         for k, (d, c) in enumerate(zip(dtypes, signature.inner,
                                                        strict=True))]
        params = [p for p, k in zip(typed.function.function.params, typed.kinds,
                                    strict=False) if k == "array"]
        self.axes = [(params.index(e.array), e.axis) for e in typed.extents]
        self.shared = sum(map(_size, typed.shared))

    @property
    def picks(self) -> list[tuple[int, int]]:
        """Which strides the kernel takes: (array, axis)."""
        return [(o.at, k) for o in self.operands
                for k in range(int(o.code[1:]) - (o.code[0] == "c"))]

    def kernel(self, threads: int) -> Kernel:
        """The text for blocks of at most `threads`."""
        typed = self.typed.function
        out = Source(kernel_name(typed.function.name))
        for o in self.operands:
            out.pointer(o.pointer, storage(o.dtype))
        out.integer(*(f"n{k}" for k in range(len(self.axes))),
                    *(f"s{o}_{k}" for o, k in self.picks))
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
        offset = 0
        for k, shared in enumerate(self.typed.shared):
            out(f"m{k} = shared_{storage(shared.dtype)}({offset})")
            found[shared.name] = Raw(f"m{k}", shared.strides, shared.dtype)
            offset += _size(shared)
        return found


def _array(operand: Operand) -> Raw:
    rank = int(operand.code[1:])
    strides = [operand.stride(k) for k in range(rank)]
    if operand.code[0] == "c":
        strides[-1] = "1"
    return Raw(operand.pointer, tuple(strides), operand.dtype)


def _size(shared: Shared) -> int:
    return -(-shared.size*shared.dtype.itemsize // _ALIGN)*_ALIGN


class RawLauncher:
    """Launches the kernel that is compiled for blocks of the given size."""

    def __init__(self, text: RawText, name: str) -> None:
        self._text, self._name = text, name
        self._programs: dict[int, Program] = {}
        self._last: tuple[Program, Device] | None = None

    def __call__(self, call: Call) -> None:
        """Launch on the call's stream."""
        text, where = self._text, device(call.device)
        shared = text.shared + call.shared
        if shared > where.shared_limit:
            raise RangeError(
                f"{self._name}: {text.shared} bytes of shared arrays and {call.shared} "
                f"of dynamic shared memory; a block on cuda:{where.ordinal} has at "
                f"most {where.shared_limit}; use smaller arrays")
        threads = prod(call.block)
        program = self._program(next(b for b in BOUNDS if threads <= b))
        values: Sequence[Any] = (
            *call.pointers, *(call.extents[k][a] for k, a in text.axes),
            *(call.strides[k][a] for k, a in text.picks), *call.scalars)
        program.launch(where, call.stream, call.grid, values, shared, call.block)
        self._last = program, where

    def _program(self, bound: int) -> Program:
        if bound not in self._programs:
            self._programs[bound] = Program(self._text.kernel(bound))
        return self._programs[bound]

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
                found["shared_size_bytes"] + self._text.shared}


def build_raw(spec: Any, signature: Signature) -> Launcher:
    """A launcher; what it launches is compiled, or loaded, at the first call."""
    typed = spec.typed(signature.inputs)
    return RawLauncher(RawText(typed, signature), spec.name)
