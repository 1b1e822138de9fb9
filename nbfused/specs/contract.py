"""`Contract`: batched matrix products with prologues, epilogue, permuted store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from ..scalar.ir import Function
    from ..scalar.types import Typed

__all__ = ["Contract", "TypedContract"]


@dataclass(frozen=True)
class Contract:
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
    """

    subscripts: str
    epilogue: Function
    kinds: tuple[str, ...] = ()
    prologues: tuple[Function | None, Function | None] = (None, None)
    out_axes: tuple[int, ...] | None = None


@dataclass(frozen=True)
class TypedContract:
    """A Contract with every value typed; `accumulator` is the sum's dtype."""

    prologues: tuple[Typed | None, Typed | None]
    epilogue: Typed
    kinds: tuple[str, ...]
    accumulator: np.dtype
