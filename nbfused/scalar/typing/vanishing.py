"""Folding of values that are one number wherever they are not NaN.

``x - x`` is 0, or NaN where `x` is infinite or NaN.  So is each function of it that NaN
passes through: its exponential is 1 or NaN, and no exponential is needed to tell.  Rows
of one element are made of such values: a softmax subtracts the maximum, which is `x`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..ir.clean import clean
from ..ir.nodes import Block, Function, Let, Literal, Statement, Value
from ..language.vocabulary import OPS

__all__ = ["fold_vanishing"]

#: Operations whose result is NaN if an operand is, and whether an addition is cheaper.
_STRICT = {"add": False, "sub": False, "mul": False, "neg": False, "div": True,
           "sqrt": True, "exp": True, "exp2": True, "expm1": True, "log": True,
           "log2": True, "log10": True, "log1p": True}
#: Greatest magnitude of the numbers, integers that each floating dtype has.
_MOST = 1024

#: A value that is a number or NaN: the difference that it comes from, and the number.
Vanishing = tuple[str, float]


def fold_vanishing(function: Function, dtypes: dict[str, np.dtype]) -> Function:
    """Replace what is computed of a difference ``x - x`` by sums.

    Parameters
    ----------
    function
        A typed function; statements inside branches and loops stay as they are.
    dtypes
        The dtype of each name, which it keeps.
    """
    found: dict[str, Vanishing] = {}
    statements = tuple([_folded(s, found, dtypes) for s in function.body.statements])
    if statements == function.body.statements:
        return function
    return clean(replace(function, body=Block(statements, function.body.yields)))


def _folded(s: Statement, found: dict[str, Vanishing],
            dtypes: dict[str, np.dtype]) -> Statement:
    """The statement, or a cheaper one; what its result is enters `found`."""
    if not isinstance(s, Let) or s.op not in _STRICT or \
            dtypes[s.results[0]].kind != "f":
        return s
    if s.op == "sub" and s.args[0] == s.args[1] and isinstance(s.args[0], str) \
            and s.args[0] not in found:
        found[s.results[0]] = s.results[0], 0.0
        return s
    known = [found[a] for a in s.args if isinstance(a, str) and a in found]
    if len({root for root, _ in known}) != 1:
        return s
    number = _number(s, found)
    if number is None:
        return s
    found[s.results[0]] = known[0][0], number
    return _as_sum(s, number, found, dtypes) if _STRICT[s.op] else s


def _number(s: Let, found: dict[str, Vanishing]) -> float | None:
    """The number that a result is where it is not NaN; None if it is not known."""
    operands = [_operand(a, found) for a in s.args]
    if any(x is None for x in operands):
        return None
    with np.errstate(all="ignore"):
        number = float(OPS[s.op](*map(np.float64, operands)))
    return number if abs(number) <= _MOST and number == int(number) else None


def _operand(a: Value, found: dict[str, Vanishing]) -> float | None:
    if isinstance(a, Literal):
        return float(a.value) if not isinstance(a.value, complex) else None
    return found[a][1] if a in found else None


def _as_sum(s: Let, number: float, found: dict[str, Vanishing],
            dtypes: dict[str, np.dtype]) -> Let:
    """`number` as an operand and the rest, where that has the sign of zero, too."""
    base = next(a for a in s.args if isinstance(a, str))
    rest = number - found[base][1]
    if np.signbit(found[base][1] + rest) != np.signbit(number):
        return s
    name = dtypes[s.results[0]].name
    return replace(s, op="add", args=(base, Literal(name, repr(rest))))
