"""Operands of a Contract's kernels."""

from __future__ import annotations

import numpy as np

from ..backend import Signature
from ..specs import TypedContract
from .operands import operand_list

__all__ = ["ContractLayout"]


class ContractLayout:
    """The operands of one Contract.

    Parameters
    ----------
    name
        Of the epilogue.
    typed, signature
        What to compute, on which dtypes and loops.

    Attributes
    ----------
    ranks
        Number of loops over batch, m, n and k.
    operands
        The arrays, in the order of their addresses.
    factors, extras, outputs
        The two that are multiplied, those that the epilogue reads, the results.
    kept
        Dtype that sums are kept in: the accumulator, or bytes that stand for bools.
    """

    def __init__(self, name: str, typed: TypedContract, signature: Signature) -> None:
        self.name, self.typed, self.ranks = name, typed, signature.ranks
        given = zip(signature.inputs[2:], typed.kinds, strict=True)
        extras = [t for t, k in given if k == "element"]
        self.operands = operand_list(
            [*signature.inputs[:2], *extras, *signature.outputs], signature.inner)
        self.factors = self.operands[:2]
        self.extras = self.operands[2:2 + len(extras)]
        self.outputs = self.operands[2 + len(extras):]
        self.kept = np.dtype(np.uint8) if typed.accumulator.kind == "b" \
            else typed.accumulator
