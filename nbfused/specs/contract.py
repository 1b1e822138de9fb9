"""`Contract`: batched matrix products with prologues, epilogue, permuted store."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from ..scalar.ir.nodes import Function
from ..scalar.typing.types import Typed, compute_dtype, promoted_dtype
from ..support.records import record
from .base import KEPT, Hashed, Pullback, Shape
from .fusion.epilogues import with_total
from .pointwise import pointwise
from .shapes import contract_shapes

if TYPE_CHECKING:
    from ..scalar.typing.types import Type

__all__ = ["Contract", "TypedContract"]


@record(frozen=True)
class Contract(Hashed):
    """``out = epilogue(sum_k prologue_a(A) * prologue_b(B), *extras)``.

    Attributes
    ----------
    subscripts
        ``"mk,kn->mn"``; ``...`` stands for broadcast batch axes.
    epilogue
        Parameters: the accumulator, then `kinds` (``"element"``, an array
        that broadcasts to the result as subscripted; ``"scalar"``).  One result
        for each output.
    prologues
        A scalar function of one value for each operand, or None.
    out_axes
        How the result is permuted when it is stored, as in `numpy.transpose`.
    saves
        Whether the last output is the accumulator, or its sum with extras, for the
        derivative.
    precision
        ``"tf32"``: a device may round float32 factors to the 10 bits of TF32.
    """

    subscripts: str
    epilogue: Function
    kinds: tuple[str, ...] = ()
    prologues: tuple[Function | None, Function | None] = (None, None)
    out_axes: tuple[int, ...] | None = None
    saves: bool = False
    precision: str | None = None

    __hash__ = Hashed.__hash__

    @property
    def name(self) -> str:
        """The name for kernels and messages."""
        return f"contract_{self.epilogue.name}"

    @property
    def kernel(self) -> Contract:
        """The same without subscripts and permutation: they are in the strides."""
        return _kernel(self)

    def out_shapes(self, shapes: tuple[Shape, ...]) -> tuple[Shape, ...]:
        """The permuted shape of the product, for each output."""
        extras = [s for s, k in zip(shapes[2:], self.kinds, strict=True)
                  if k == "element"]
        shape = contract_shapes(self.subscripts, shapes[0], shapes[1], extras,
                                self.out_axes)
        return (shape,) * len(self.epilogue.results)

    def _prologue(self, which: int, dtype: Type) -> Typed | None:
        f = self.prologues[which]
        return None if f is None else pointwise(f, (dtype,))

    def _accumulated(self, types: tuple[Type, ...]) -> np.dtype:
        """Dtype of the product before the epilogue, as numpy.matmul's."""
        operands = [f.results[0] if f else types[k]
                    for k, f in enumerate(self._prologue(k, types[k]) for k in (0, 1))]
        return promoted_dtype(*operands)

    def _epilogue(self, types: tuple[Type, ...]) -> Typed:
        return pointwise(self.epilogue, (self._accumulated(types), *types[2:]))

    def result_types(self, types: tuple[Type, ...]) -> tuple[np.dtype, ...]:
        """By NumPy's rules for matmul, then for the epilogue."""
        return self._epilogue(types).results

    def typed(self, types: tuple[Type, ...],
              outputs: tuple[np.dtype, ...] = ()) -> TypedContract:
        """Every function typed."""
        accumulator = compute_dtype(self._accumulated(types))
        return TypedContract(
            (self._prologue(0, types[0]), self._prologue(1, types[1])),
            self._epilogue(types), self.kinds, accumulator, self.precision)

    def vjp(self, needs: tuple[bool, ...], shapes: tuple[Shape, ...],
            present: tuple[bool, ...]) -> Pullback:
        """A Map for the epilogue, then two Contracts."""
        from .vjp.contract import contract_vjp

        return contract_vjp(self, needs, shapes, present)


@lru_cache(maxsize=KEPT)
def _kernel(spec: Contract) -> Contract:
    return replace(spec, subscripts="mk,kn->mn", out_axes=None, saves=False)


@lru_cache(maxsize=KEPT)
def saving(spec: Contract, rest: Function, added: tuple[str, ...]) -> Contract:
    """The same results, then the accumulator after the additions of `begun`."""
    if spec.saves:
        return spec
    return replace(spec, epilogue=with_total(spec.epilogue, rest, added), saves=True)


@record(frozen=True)
class TypedContract:
    """A Contract with every value typed; `accumulator` is the sum's dtype."""

    prologues: tuple[Typed | None, Typed | None]
    epilogue: Typed
    kinds: tuple[str, ...]
    accumulator: np.dtype
    precision: str | None = None
