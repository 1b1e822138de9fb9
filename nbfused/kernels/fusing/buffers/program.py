"""Programs on buffers: run at addresses that a compiler of another library gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import c_char
from math import prod
from typing import Any

import numpy as np

from ....arrays.creation import array_like
from ....arrays.libraries.xla import XlaArray
from ....registry.backends import backend_for
from ....specs.fusion.graph import Value
from ....support.records import record
from ....support.stamp import STAMP
from ..plans.plan import ALIGN, Plan
from ..plans.planning import Plans, read
from ..program import Program, evaluate
from .shared import program_name, without_graph

__all__ = ["BufferProgram"]

#: Shape and dtype of an array.
Aval = tuple[tuple[int, ...], np.dtype]
#: ``start(pointers, numbers)``, and the numbers.
Start = tuple[Callable[[tuple[int, ...], tuple[Any, ...]], Any], tuple[Any, ...]]


@record(frozen=True, eq=False)
class BufferProgram:
    """A program that stores its results into buffers.

    Attributes
    ----------
    name
        What its kernels are called.
    program
        Its arguments are arrays and numbers in order, then what it stores into.
    numbers
        For each argument the number that it is, or None.
    inputs, results
        Shape and dtype of each array.
    cheap
        Whether nothing in it is dear to compute again.
    scratch
        Bytes of memory beside them.
    """

    name: str
    program: Program
    numbers: tuple[Any, ...]
    inputs: tuple[Aval, ...]
    results: tuple[Aval, ...]
    cheap: bool
    scratch: int

    def identifier(self) -> str | None:
        """A name that equal programs have in every process; None of others."""
        return program_name(self.program, self.numbers)

    def __getstate__(self) -> dict[str, Any]:
        return {**{k: v for k, v in self.__dict__.items() if k[0] != "_"},
                "program": without_graph(self.program)}

    def run(self, pointers: tuple[int, ...], device: str,
            stream: int | None) -> Start | None:
        """Run it: addresses of inputs, of results, and of the scratch memory.

        Returns
        -------
        tuple or None
            What runs it from now on on this device, with the settings of now.
        """
        program, arrays = self._on(device)
        count = len(self.inputs) + len(self.results)
        buffers = iter([_array(p, *aval, device, stream) for p, aval in zip(
            pointers[:count], (*self.inputs, *self.results), strict=True)])
        arguments = [next(buffers) if x is None else x for x in (
            *self.numbers, *(None,) * len(self.results))]
        layout = read(arguments)
        if layout is None:
            program.run(arguments)
        else:
            arrays.run(program, arguments, (layout[0],))
        if device != "cpu":  # what lay between the launches is freed
            backend_for(device, "a buffer").synchronize()
        plan = layout and arrays.find((layout[0],))
        return self._start(plan, arguments) if isinstance(plan, Plan) else None

    def _on(self, device: str) -> tuple[Program, Plans]:
        """The program with its constants on a device, and its plans."""
        known = self.__dict__.setdefault("_devices", {})
        key = device, bytes(STAMP)
        if key not in known:
            like = _array(0, (0,), np.dtype(np.float32), device, None)
            known[key] = Program(**{
                **self.program.__dict__, "constants": {
                    v: array_like(x, like) for v, x in
                    self.program.constants.items()}}), Plans()
        found: tuple[Program, Plans] = known[key]
        return found

    def _start(self, plan: Plan, arguments: Sequence[Any]) -> Start | None:
        """Start the launches of a plan; None where it looks at arrays first."""
        if plan.results or plan.checks or plan.views or (
                plan.new_arena is not None and plan.arena + ALIGN > self.scratch):
            return None
        env: dict[Value, Any] = dict(zip(plan.arguments, arguments, strict=True))
        for number in plan.numbers:
            env[number.value] = evaluate(number, env)
        constants = tuple([at for *_, at in plan.constants])
        launch, scratch = plan.launch, bool(self.scratch)

        def start(pointers: tuple[int, ...], numbers: tuple[Any, ...]) -> None:
            if scratch:
                launch((*pointers[:-1], *constants, -(-pointers[-1]//ALIGN)*ALIGN),
                       numbers)
            else:
                launch((*pointers, *constants), numbers)

        return start, tuple([form(env[v]) for v, form in plan.passed])


def _array(pointer: int, shape: tuple[int, ...], dtype: np.dtype, device: str,
           stream: int | None) -> Any:
    """View a buffer as an array."""
    if device != "cpu":
        return XlaArray(pointer, shape, None, dtype, device, stream)
    size = prod(shape) * dtype.itemsize
    return np.ndarray(shape, dtype, memoryview((c_char * size).from_address(pointer))) \
        if size else np.empty(shape, dtype)
