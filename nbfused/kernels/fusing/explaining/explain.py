"""Explanations of fused functions: their launches, and the bytes these save."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

import numpy as np

from ....specs import View
from ....specs.fusion.graph import Launch, Value
from ....support.display import html_table, text_table
from ....support.records import record
from ..parts import memory_of
from ..program import Opaque, Program, read_by, tree_values
from .boundaries import Boundary, boundaries
from .drawing import drawing

__all__ = ["ExplainedLaunch", "Explanation", "explain"]


@record(frozen=True)
class ExplainedLaunch:
    """One launch of a fused function.

    Attributes
    ----------
    kind : str
        ``"Map"``, ``"Reduce"``, ``"Row"``, ``"Contract"``; ``"call"`` for a function
        that is called as it is.
    name : str
        Of the kernel.
    shape : tuple of int
        Of its first result.
    operations : tuple of str
        What it computes.
    bytes : int
        Of the arrays that it reads and stores, each counted once.
    """

    kind: str
    name: str
    shape: tuple[int, ...]
    operations: tuple[str, ...]
    bytes: int


class Explanation(Sequence[ExplainedLaunch]):
    """The launches of a fused function for some arguments; shown as a table.

    Attributes
    ----------
    operations : int
        How many were traced.
    bytes : int
        What the launches read and store together.
    unfused_bytes : int
        What the operations would, one by one.
    boundaries : tuple of Boundary
        What launches read of one another, and why they are not one.
    peak_bytes : int
        Of the arrays between the launches, the most that are needed at one time.
    result_bytes : int
        Of new arrays that are returned.
    """

    def __init__(self, launches: Sequence[ExplainedLaunch], operations: int,
                 unfused_bytes: int, between: Sequence[Boundary] = (),
                 memory: tuple[int, int] = (0, 0)) -> None:
        self._launches = tuple(launches)
        self.boundaries: tuple[Boundary, ...] = tuple(between)
        self.peak_bytes, self.result_bytes = memory
        self.operations = operations
        self.bytes = sum(one.bytes for one in launches)
        self.unfused_bytes = unfused_bytes

    def __getitem__(self, index: Any) -> Any:
        return self._launches[index]

    def __len__(self) -> int:
        return len(self._launches)

    @property
    def summary(self) -> str:
        """One line: how many launches of how many operations, and bytes."""
        return (f"{len(self)} launches of {self.operations} operations; "
                f"{self.bytes:,} bytes, one by one {self.unfused_bytes:,}")

    @property
    def memory(self) -> str:
        """One line: bytes between the launches, and of results."""
        return (f"memory: {self.peak_bytes:,} bytes between launches at most, "
                f"{self.result_bytes:,} of results")

    def __repr__(self) -> str:
        parts = [text_table(_HEAD, self._rows()), self.summary, self.memory]
        if self.boundaries:
            parts += ["", "why not fewer launches:",
                      text_table(_WHY, self._reasons())]
        return "\n".join(parts)

    def _repr_html_(self) -> str:
        table = html_table(_HEAD, self._rows(), f"{self.summary}; {self.memory}")
        why = html_table(_WHY, self._reasons(), "why not fewer launches") \
            if self.boundaries else ""
        return f"<div>{drawing(self)}{table}{why}</div>"

    def _reasons(self) -> list[tuple[object, ...]]:
        return [(one.before, one.after, "×".join(map(str, one.shape)) or "1",
                 one.bytes, one.reason) for one in self.boundaries]

    def _rows(self) -> list[tuple[object, ...]]:
        return [(k, one.kind, one.name, "×".join(map(str, one.shape)) or "1",
                 " ".join(one.operations), one.bytes) for k, one in enumerate(self)]


_HEAD = ("", "kind", "name", "result", "operations", "bytes")
_WHY = ("from", "to", "stored", "bytes", "because")


def explain(program: Program) -> Explanation:
    """Explain a program: what it launches, of what was traced."""
    nodes = {node: None for launch in program.launches for node in launch.nodes
             if _launches(node.spec)}
    launches = [launch for launch in program.launches if _launches(launch.spec)]
    return Explanation(
        list(map(_explained, launches)), len(nodes),
        sum(_bytes((*node.inputs, *node.outputs)) for node in nodes),
        boundaries(launches, lambda v: _bytes((v,))), _memory(program, launches))


def _memory(program: Program, launches: Sequence[Launch]) -> tuple[int, int]:
    """The most bytes that are needed between launches, and those of results."""
    returned = {memory_of(v) for v in tree_values(program.outputs)}
    given = {*program.arguments, *program.constants}
    stored = {memory_of(v) for v in program.stores.values()}
    in_results = {memory_of(x) for launch in program.launches
                  if isinstance(launch.spec, View) and launch.spec.kind == "concatenate"
                  and launch.outputs[0] in returned for x in launch.inputs}
    last = {memory_of(v): k for k, launch in enumerate(launches)
            for v in launch.inputs if isinstance(v, Value)}
    held = peak = 0
    ends: dict[int, int] = {}
    for k, launch in enumerate(launches):
        own = [v for v in launch.outputs
               if v not in returned | in_results | stored | given]
        held += _bytes(own)
        peak = max(peak, held)
        for v in own:
            end = last.get(v, k)
            ends[end] = ends.get(end, 0) + _bytes((v,))
        held -= ends.get(k, 0)
    return peak, _bytes(returned - given)


def _explained(launch: Launch) -> ExplainedLaunch:
    own = isinstance(launch.spec, Opaque)
    return ExplainedLaunch(
        "call" if own else type(launch.spec).__name__, _name(launch.spec),
        launch.outputs[0].shape if launch.outputs else (),
        tuple(_name(node.spec) for node in launch.nodes if _launches(node.spec)),
        _bytes((*read_by(launch), *launch.outputs)))


def _launches(spec: Any) -> bool:
    return isinstance(spec, Opaque) or spec.launches


def _name(spec: Any) -> str:
    if isinstance(spec, Opaque):
        return getattr(spec.function, "__name__", type(spec.function).__name__)
    return str(spec.name)


def _bytes(values: Iterable[Any]) -> int:
    """Bytes of the arrays among values, each counted once."""
    arrays = [v for v in dict.fromkeys(values) if isinstance(v, Value)]
    return sum(prod(v.shape) * v.type.itemsize for v in arrays
               if isinstance(v.type, np.dtype) and not v.by_value)
