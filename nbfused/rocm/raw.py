"""`Raw` on ROCm: the user's grid of the user's blocks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..backend import Call, Launcher, Signature
from ..raw_layout import BOUNDS, RawLayout, bound_of
from ..scalar.print_hip import Raw, cast, statements, storage_type
from ..specs import Raw as Spec
from ..specs.raw import TypedRaw
from .kernel import Kernel
from .launch import Program
from .leaving import leaving
from .runtime import Device, device
from .source import INT64, Operand, Source, kernel_name

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
        typed = leaving(self.typed.function)
        out = Source(kernel_name(typed.function.name), "raw")
        for o in self.operands:
            out.pointer(o.dtype)
        out.integers(len(self.layout.axes) + len(self.layout.picks))
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
        first = len(self.operands) + len(self.layout.axes)
        strides = [f"w.integer({first + k})"
                   for k, (at, _) in enumerate(self.layout.picks) if at == o.at]
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
        for k, (shared, offset) in enumerate(zip(
                self.typed.shared, self.layout.offsets, strict=True)):
            kind = storage_type(shared.dtype)
            out(f"{kind} *const m{k} = nbf::shared_array<{kind}>({offset});")
            found[shared.name] = Raw(f"m{k}", shared.strides, shared.dtype)
        return found


#: What is not called as in C++.
_WORDS = {"warpsize": "int64_t(32)", "laneid": "nbf::lane()"}


class RawLauncher:
    """Launches the kernel that is compiled for blocks of the given size."""

    def __init__(self, text: RawText, name: str) -> None:
        self._text, self._name = text, name
        self._programs: dict[int, Program] = {}
        self._last: tuple[Program, Device] | None = None

    def __call__(self, call: Call) -> None:
        """Launch on the call's stream."""
        where, layout = device(call.device), self._text.layout
        shared = layout.shared_of(call, self._name, f"rocm:{where.ordinal}",
                                  where.shared_limit)
        program = self._program(bound_of(call.block))
        program.launch(where, call.stream, call.grid, layout.values(call), shared,
                       call.block)
        self._last = program, where

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
                found["shared_size_bytes"] + self._text.layout.shared}


def build_raw(spec: Spec, signature: Signature) -> Launcher:
    """A launcher; what it launches is compiled, or loaded, at the first call."""
    return RawLauncher(RawText(spec.typed(signature.inputs), signature), spec.name)
