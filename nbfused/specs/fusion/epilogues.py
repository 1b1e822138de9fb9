"""The first addition of an epilogue to its product: a bias.

The derivative reads that sum, so it is what is kept, and the bias's cotangent is the
product's, summed over what broadcasting added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from ...scalar.ir.build import Builder
from ...scalar.ir.nodes import Block, Function, Let, Value, read
from ..vjp.functions import compose

__all__ = ["begun", "with_total"]


@lru_cache(maxsize=1024)
def begun(epilogue: Function) -> tuple[Function, tuple[str, ...]]:
    """Divide an epilogue into a sum and the rest.

    Returns
    -------
    Function
        Of the sum, then the extras that are not in it.
    tuple of str
        The extras that are, in the order of the additions; they occur nowhere else.
    """
    added: list[str] = []
    while True:
        found = _addition(epilogue)
        if found is None:
            return epilogue, tuple(added)
        epilogue, name = found
        added.append(name)


def _addition(function: Function) -> tuple[Function, str] | None:
    """The function after an addition to its first parameter, and what is added.

    None if that parameter is used in any other way.
    """
    total, *extras = function.params
    statements = function.body.statements
    for s in statements:
        if not isinstance(s, Let) or s.op != "add" or total not in s.args:
            continue
        other = s.args[1] if s.args[0] == total else s.args[0]
        rest = Block(tuple(t for t in statements if t is not s), function.body.yields)
        if other not in extras or not read(rest).isdisjoint((total, str(other))):
            return None
        params = (s.results[0], *(p for p in extras if p != other))
        return replace(function, params=params, body=rest, origin=None), str(other)
    return None


def with_total(epilogue: Function, rest: Function, added: Sequence[str]) -> Function:
    """The epilogue with the sum of `begun` as its last result."""

    def build(b: Builder) -> tuple[Value, ...]:
        total: Value = epilogue.params[0]
        for name in added:
            total = b.let("add", total, name)
        others = (p for p in epilogue.params[1:] if p not in added)
        return (*b.call(rest, total, *others), total)

    return compose(epilogue.name, epilogue.params, build)
