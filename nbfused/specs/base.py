"""The base of all specs: hashing, and how a derivative is written down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from ..support.records import record

if TYPE_CHECKING:
    import numpy as np

    from ..scalar.typing.types import Type

__all__ = ["KEPT", "Hashed", "Operand", "Program", "Pullback", "Ref", "Shape", "Spec",
           "Step"]

Shape = tuple[int, ...]

#: Specs of which a cache knows something after nobody uses them any more, so that who
#: makes an equal one finds it again.  A spec has its kernels (`dispatch.calls`), on the
#: cpu 0.1 MB each: so this bounds what programs keep that make new ones all the time.
KEPT = 512


class Hashed:
    """A frozen record that computes its hash once: specs key every cache."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __hash__(self) -> int:
        cached = self.__dict__.get("_hash")
        if cached is None:
            cached = hash((type(self).__name__,
                           *(getattr(self, f.name) for f in fields(self))))
            self.__dict__["_hash"] = cached
        return int(cached)

    def __getstate__(self) -> dict[str, Any]:
        """The fields: what was found out here (hash, calls) is of this process."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


@record(frozen=True)
class Ref:
    """Names an array of a pullback.

    An input or output of the primal call, the cotangent of an output, or an output of
    an earlier step (`index`, `output`).
    """

    source: Literal["input", "output", "cotangent", "step"]
    index: int
    output: int = 0


#: What a step reads: an array, or a number that is passed by value.
Operand = Ref | int | float


@record(frozen=True)
class Step:
    """Run `spec` on `inputs`; each output takes the dtype of the array `like`."""

    spec: Spec
    inputs: tuple[Operand, ...]
    like: tuple[Ref | None, ...]


@record(frozen=True)
class Pullback:
    """A derivative as a straight line of specs.

    Attributes
    ----------
    forward
        The spec to run in the primal's place: the same results first, then what
        must be saved (a reduction's state, a product's accumulator).  Its own
        pullback has itself as forward.
    steps
        What the backward pass runs, in order.
    results
        Per input, the array that holds its cotangent, or None where it is zero.
        Its dtype may still differ from the input's.
    """

    forward: Spec
    steps: tuple[Step, ...]
    results: tuple[Ref | None, ...]

    def keeps(self, source: str) -> frozenset[int]:
        """Indices of the primal's inputs or outputs whose data the steps read."""
        return frozenset(r.index for s in self.steps for r in s.inputs
                         if isinstance(r, Ref) and r.source == source)


class Spec(Protocol):
    """A skeleton filled with scalar functions."""

    def __hash__(self) -> int:
        """Specs key every cache."""

    @property
    def name(self) -> str:
        """The name for kernels and messages."""

    @property
    def kernel(self) -> Spec:
        """The spec without what only moves strides (axes, permutations)."""

    def out_shapes(self, shapes: tuple[Shape, ...]) -> tuple[Shape, ...]:
        """Shapes of the outputs for these input shapes; `ShapeError` if they clash."""

    def result_types(self, types: tuple[Type, ...]) -> tuple[np.dtype, ...]:
        """Dtypes of the outputs, NumPy's rules (NEP 50)."""

    def typed(self, types: tuple[Type, ...], outputs: tuple[np.dtype, ...] = ()) -> Any:
        """The record that a backend prints, every value typed."""

    def vjp(self, needs: tuple[bool, ...], shapes: tuple[Shape, ...],
            present: tuple[bool, ...]) -> Pullback:
        """Cotangents of the inputs that `needs` marks, from the present ones."""


@record
class Program:
    """Steps under construction."""

    steps: list[Step] = field(default_factory=list)

    def run(self, spec: Spec, *inputs: Operand,
            like: tuple[Ref | None, ...] = (None,)) -> tuple[Ref, ...]:
        """Append a step; its outputs."""
        self.steps.append(Step(spec, inputs, like))
        index = len(self.steps) - 1
        return tuple(Ref("step", index, k) for k in range(len(like)))

    def extend(self, steps: tuple[Step, ...],
               replace: Mapping[Ref, Ref]) -> dict[Ref, Ref]:
        """Append another program's steps with its references replaced.

        Returns the map of references, the steps' own included.
        """
        table = dict(replace)

        def operand(r: Any) -> Any:
            return table.get(r, r) if isinstance(r, Ref) else r

        for index, s in enumerate(steps):
            outs = self.run(s.spec, *map(operand, s.inputs),
                            like=tuple(map(operand, s.like)))
            for k, out in enumerate(outs):
                table[Ref("step", index, k)] = out
        return table
