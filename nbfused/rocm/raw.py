"""`Raw` on ROCm: the user's grid of the user's blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from ..backend import Call, Launcher, Signature
from ..errors import RangeError
from ..scalar.print_hip import Raw, cast, statements, storage_type
from ..specs import Raw as Spec
from ..specs.raw import Shared, TypedRaw
from .kernel import Kernel
from .launch import Program
from .leaving import leaving
from .runtime import Device, device
from .source import INT64, Operand, Source, kernel_name

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
    picks
        Which strides the kernel takes: (array, axis).
    shared
        Bytes of shared memory.
    """

    def __init__(self, typed: TypedRaw, signature: Signature) -> None:
        self.typed = typed
        dtypes = [t for t, k in zip(signature.inputs, typed.kinds, strict=True)
                  if k == "array"]
        self.operands = [Operand(k, np.dtype(d), c)  # type: ignore[arg-type]  # arrays
                         for k, (d, c) in enumerate(zip(dtypes, signature.inner,
                                                        strict=True))]
        params = [p for p, k in zip(typed.function.function.params, typed.kinds,
                                    strict=False) if k == "array"]
        self.axes = [(params.index(e.array), e.axis) for e in typed.extents]
        self.picks = [(o.at, k) for o in self.operands
                      for k in range(int(o.code[1:]) - (o.code[0] == "c"))]
        self.shared = sum(map(_size, typed.shared))

    def kernel(self, threads: int) -> Kernel:
        """The text for blocks of at most `threads`."""
        typed = leaving(self.typed.function)
        out = Source(kernel_name(typed.function.name), "raw")
        for o in self.operands:
            out.pointer(o.dtype)
        out.integers(len(self.axes) + len(self.picks))
        with out.block("template <class W> NBF_DEVICE void thread(const W &w)"):
            out("static_cast<void>(w);")
            arguments = (self._parameters(out) | self._launch_values(typed.dtypes)
                         | self._shared(out))
            out(*statements(typed, arguments, (), prefix="v_"))
        return out.kernel(threads, "thread(w)")

    def _parameters(self, out: Source) -> dict[str, Raw | str]:
        typed = self.typed.function
        operands = iter(self.operands)
        found: dict[str, Raw | str] = {}
        for p, kind in zip(typed.function.params, self.typed.kinds, strict=False):
            if kind == "scalar":
                found[p] = out.scalar(typed.dtypes[p])
            else:
                found[p] = self._array(out, next(operands))
        return found

    def _array(self, out: Source, o: Operand) -> Raw:
        out(f"{o.type} *const {o.pointer} = w.template pointer<{o.type}>({o.at});")
        first = len(self.operands) + len(self.axes)
        strides = [f"w.integer({first + k})" for k, (at, _) in enumerate(self.picks)
                   if at == o.at]
        return Raw(o.pointer, (*strides, "1") if o.code[0] == "c" else tuple(strides),
                   o.dtype)

    def _launch_values(self, dtypes: dict[str, np.dtype]) -> dict[str, Raw | str]:
        """Where a thread is, and the extents of arrays."""
        found: dict[str, Raw | str] = {}
        for place in self.typed.places:
            text = _WORDS.get(place.word) or f"static_cast<int64_t>({place.word})"
            found[place.name] = cast(INT64, dtypes[place.name], text)
        for k, extent in enumerate(self.typed.extents, len(self.operands)):
            found[extent.name] = cast(INT64, dtypes[extent.name], f"w.integer({k})")
        return found

    def _shared(self, out: Source) -> dict[str, Raw | str]:
        """One array after the other."""
        found: dict[str, Raw | str] = {}
        offset = 0
        for k, shared in enumerate(self.typed.shared):
            kind = storage_type(shared.dtype)
            out(f"{kind} *const m{k} = nbf::shared_array<{kind}>({offset});")
            found[shared.name] = Raw(f"m{k}", shared.strides, shared.dtype)
            offset += _size(shared)
        return found


#: What is not called as in C++.
_WORDS = {"warpsize": "int64_t(32)", "laneid": "nbf::lane()"}


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
        self._check(call, where)
        program = self._program(next(b for b in BOUNDS if prod(call.block) <= b))
        values: Sequence[Any] = (
            *call.pointers, *(call.extents[k][a] for k, a in text.axes),
            *(call.strides[k][a] for k, a in text.picks), *call.scalars)
        program.launch(where, call.stream, call.grid, values, shared, call.block)
        self._last = program, where

    def _check(self, call: Call, where: Device) -> None:
        own = self._text.shared
        if own + call.shared > where.shared_limit:
            raise RangeError(
                f"{self._name}: {own} bytes of shared arrays and {call.shared} of "
                f"dynamic shared memory; a block on rocm:{where.ordinal} has at most "
                f"{where.shared_limit}; use smaller arrays")

    def _program(self, bound: int) -> Program:
        if bound not in self._programs:
            self._programs[bound] = Program(self._text.kernel(bound))
        return self._programs[bound]

    def texts(self) -> dict[str, Callable[[], str]]:
        """How to get the text of what is compiled, by its kind."""
        kernel = self._text.kernel(BOUNDS[0])
        return {"hip": lambda: kernel.text}

    def attributes(self) -> dict[str, int]:
        """What the compiler knows of the kernel that was launched last."""
        if self._last is None:
            return {}
        program, where = self._last
        found = program.attributes(where)
        return {**found, "shared_size_bytes":
                found["shared_size_bytes"] + self._text.shared}


def build_raw(spec: Spec, signature: Signature) -> Launcher:
    """A launcher; what it launches is compiled, or loaded, at the first call."""
    return RawLauncher(RawText(spec.typed(signature.inputs), signature), spec.name)
