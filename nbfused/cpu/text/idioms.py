"""Idiom recognition: operations rebuilt from the primitive ones that typing expands.

A sigmoid takes two thirds of the time of its definition.  Of ``exp(-x*x)`` and
``erfc(-x/sqrt(2))``, the tails of the normal distribution, the function gets the exact
argument: the rounding of it would be magnified ``x*x`` times.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ...scalar.ir.clean import live
from ...scalar.ir.nodes import Let, Literal, Value, operands, walk
from ...scalar.typing.types import Typed

__all__ = ["recognise_idioms"]

_HALF_ROOT = -0.7071067811865476


def recognise_idioms(typed: Typed) -> Typed:
    """Replace recognised idioms in `typed` by operations of this backend.

    A sigmoid not where another operation needs the exponential too.
    """
    body = typed.function.body
    known = {s.results[0]: s for s in body.statements
             if isinstance(s, Let) and len(s.results) == 1}
    uses = Counter(v for s in walk(body) for v in operands(s) if isinstance(v, str))
    uses.update(v for v in body.yields if isinstance(v, str))
    statements = tuple(_idiom(s, known, uses) if isinstance(s, Let) else s
                       for s in body.statements)
    if statements == body.statements:
        return typed
    body = live(replace(body, statements=statements))
    return replace(typed, function=replace(typed.function, body=body))


def _idiom(s: Let, known: dict[str, Let], uses: Counter[str]) -> Let:
    """The idiom that ends in statement `s`, or `s` itself."""
    match s.op:
        case "div":
            argument = _sigmoid_argument(s, known, uses)
            return s if argument is None else replace(s, op="sigmoid", args=(argument,))
        case "erfc":
            product = _operands("mul", s.args[0], known)
            if product is not None and _is(product[0], _HALF_ROOT):
                return replace(s, op="erfc_of_half", args=product[1:])
        case "exp":
            product = _operands("mul", s.args[0], known)
            if product is not None and product[1] in _factor_of_multiple(
                    product[0], known):
                return replace(s, op="exp_of_product", args=product)
    return s


def _factor_of_multiple(value: Value, known: dict[str, Let]) -> tuple[Value, ...]:
    """``a``, if `value` is ``-a`` or ``-0.5*a``."""
    product = _operands("mul", value, known)
    if product is not None:
        return product[1:] if _is(product[0], -0.5) else ()
    return _operands("neg", value, known) or ()


def _sigmoid_argument(s: Let, known: dict[str, Let],
                      uses: Counter[str]) -> Value | None:
    """``a``, if statement `s` ends the idiom of ``sigmoid(a)``."""
    above, below = _operands("div", s, known), None
    if above is not None:
        below = _operands("add", above[1], known)
        above = _operands("select", above[0], known)
    if above is None or below is None or above[2] != below[1]:
        return None
    condition, one, e = above
    found = _operands("ge", condition, known)
    if found is None or not (_is(one, 1.0) and _is(below[0], 1.0) and _is(found[1], 0)):
        return None
    negative = _operands("exp", e, known)
    size = negative and _operands("neg", negative[0], known)
    argument = size and _operands("abs", size[0], known)
    alone = isinstance(e, str) and uses[e] == 2
    return found[0] if alone and argument == (found[0],) else None


def _operands(op: str, value: Value | Let, known: dict[str, Let],
              ) -> tuple[Value, ...] | None:
    """The operands of the operation that defines `value`, if it is `op`."""
    s = known.get(value) if isinstance(value, str) else value
    return s.args if isinstance(s, Let) and s.op == op else None


def _is(value: Value, number: float) -> bool:
    return isinstance(value, Literal) and value.value == number
