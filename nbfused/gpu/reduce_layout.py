"""Operands of a Reduce's kernels, and how its elements are cut up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from ..backend import Call, Signature
from ..specs import TypedReduce
from ..support.records import record
from .operands import Operand, are_aligned, operand_list, width_of

__all__ = ["Cut", "ReduceLayout", "cut_for"]

#: Kept points in a row from which neighbouring lanes take neighbouring points.
WIDE = 16


@record(frozen=True)
class Cut:
    """The reduced elements of each kept point in `count` chunks of `size`."""

    count: int
    size: int


def cut_for(reduced: int, wanted: int, unit: int) -> Cut:
    """At most `wanted` chunks of about the same size, each a multiple of `unit`."""
    if wanted <= 1:
        return Cut(1, reduced)
    size = -(-reduced // wanted)
    size = -(-size // unit)*unit
    return Cut(-(-reduced // size), size)


class StagePlan(Protocol):
    """The part of a plan that says which operands its kernel takes."""

    @property
    def stage(self) -> str:
        """``"partial"``: no output; ``"finish"``: no input; else all."""


class ReduceLayout:
    """The operands of a Reduce.

    Parameters
    ----------
    name
        Of the function.
    typed, signature
        What to compute, on which dtypes and loops.

    Attributes
    ----------
    kept_loops, reduced_loops
        How many loops there are of each kind.
    operands
        The arrays, in the order of their addresses.
    inputs, outputs
        Those that are read, and those of what is reduced.
    stored
        Those of elements that are outputs as they are, the first ones.
    rows_vector
        Whether neighbours along the reduced loop can be read in one access.
    """

    def __init__(self, name: str, typed: TypedReduce, signature: Signature) -> None:
        self.name, self.typed = name, typed
        self.kept_loops, self.reduced_loops = signature.ranks
        kinds = [k for k in typed.kinds if k in ("element", "scalar")]
        arrays = [t for t, k in zip(signature.inputs, kinds, strict=True)
                  if k == "element"]
        self.operands = operand_list([*arrays, *signature.outputs], signature.inner)
        first = len(arrays) + len(typed.stored)
        self.inputs, self.stored = (self.operands[:len(arrays)],
                                    self.operands[len(arrays):first])
        self.outputs = self.operands[first:]
        codes = {o.code for o in self.inputs}
        self.rows_vector = self.reduced_loops == 1 and codes <= {"1", "0"} \
            and "1" in codes and self.stores_vector

    @property
    def stores_vector(self) -> bool:
        """Whether neighbouring elements that are stored lie side by side."""
        return all(o.code == "1" for o in self.stored)

    def width(self, codes: Sequence[str]) -> int:
        """Elements per access."""
        return width_of(self._unit(codes))

    def _unit(self, codes: Sequence[str]) -> list[Operand]:
        return [*(o for o, c in zip(self.inputs, codes, strict=True) if c == "1"),
                *self.stored]

    def is_aligned(self, call: Call, codes: Sequence[str], width: int,
                   loops: Iterable[int]) -> bool:
        """Whether accesses of `width` neighbours are aligned, for steps along `loops`.

        `codes` are the strides of the inputs in the loop that is vectorised.
        """
        return are_aligned(call, self._unit(codes), width, loops)

    def codes_across(self, call: Call, least: int = WIDE) -> tuple[str, ...] | None:
        """Stride codes in the last kept loop, if neighbouring lanes should follow it.

        None if elements are nearer along the reduced loop, or there are fewer than
        `least`; and fewer than `WIDE` have to be neighbours in every input.
        """
        last = self.kept_loops - 1
        inner = [call.strides[o.at][last] for o in self.inputs]
        along = [call.strides[o.at][-1] for o in self.inputs]
        if call.shape[last] < WIDE and {*inner} != {1}:
            return None
        if call.shape[last] < least or sum(map(abs, inner)) >= sum(map(abs, along)):
            return None
        return tuple(["1" if s == 1 else "0" if s == 0 else "s" for s in inner])

    def arrays(self, plan: StagePlan) -> list[Operand]:
        """The operands that a kernel takes."""
        return [*([*self.inputs, *self.stored] if plan.stage != "finish" else []),
                *(self.outputs if plan.stage != "partial" else [])]
