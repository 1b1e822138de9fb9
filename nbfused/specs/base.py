"""What all specs share: how a derivative is written down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    import numpy as np

    from ..scalar.types import Type

__all__ = ["Pullback", "Ref", "Shape", "Spec", "Step"]

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Ref:
    """Names an array of a pullback: an input or output of the primal call, the
    cotangent of an output, or an output of an earlier step (`index`, `output`)."""

    source: Literal["input", "output", "cotangent", "step"]
    index: int
    output: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """Run `spec` on `inputs`; its outputs take the dtypes of the arrays `like`."""

    spec: Spec
    inputs: tuple[Ref, ...]
    like: tuple[Ref, ...]


@dataclass(frozen=True, slots=True)
class Pullback:
    """A derivative as a straight line of specs.

    Attributes
    ----------
    forward
        The spec to run in the primal's place: the same results first, then what
        must be saved (a reduction's state, a product's accumulator).
    steps
        What the backward pass runs, in order.
    results
        Per input, the array that holds its cotangent, or None.
    """

    forward: Spec
    steps: tuple[Step, ...]
    results: tuple[Ref | None, ...]

    def keeps(self, source: str) -> frozenset[int]:
        """Indices of the primal's inputs or outputs whose data the steps read."""
        return frozenset(r.index for s in self.steps for r in s.inputs
                         if r.source == source)


class Spec(Protocol):
    """A skeleton filled with scalar functions."""

    def out_shapes(self, shapes: tuple[Shape, ...]) -> tuple[Shape, ...]:
        """Shapes of the outputs for these input shapes; `ShapeError` if they clash."""

    def result_types(self, types: tuple[Type, ...]) -> tuple[np.dtype, ...]:
        """Dtypes of the outputs, NumPy's rules (NEP 50)."""

    def vjp(self, needs: tuple[bool, ...], shapes: tuple[Shape, ...],
            present: tuple[bool, ...]) -> Pullback:
        """Cotangents of the inputs that `needs` marks, from the present ones."""
