"""Moves the derivative of an activation from the backward product to the forward one.

More generally: any factor of a product's elements that is computed from the elements of
an earlier product.  In the backward product each thread has a tile's sums in registers,
and room for little else: an epilogue with ``erf`` and ``exp`` takes as long as the
products.  The forward one computes most of it for the activation anyway, so it stores
the derivative: benchmarks/notes/products.md#moved-factors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ...scalar.ir.build import Builder
from ...scalar.ir.nodes import Function, Let
from ...scalar.ir.nodes import Value as Scalar
from ..contract import Contract
from ..vjp.functions import compose
from .factors import factored
from .graph import Launch, Value, type_of

__all__ = ["move_factors"]

#: Statements of a factor that is worth moving: not a choice between two numbers.
_WORTH = 4
#: Half has too small a range: a factor may be rounded to 0 that a large cotangent
#: would have made a number.
_NARROW = np.dtype(np.float16)


def move_factors(launches: Sequence[Launch], wanted: Sequence[Value],
                 stores: Mapping[Value, Value]) -> list[Launch]:
    """Launches with factors of products' elements moved to earlier products.

    Parameters
    ----------
    launches
        Each after what it reads.
    wanted
        The values that are read after all of them.
    stores
        For each argument that is changed in place its new value.

    Returns
    -------
    list of Launch
        In the same order.
    """
    found, kept = list(launches), {*wanted, *stores.values()}
    for position, reader in enumerate(found):
        for value in _passed_on(found, reader, kept):
            maker = next((k for k, one in enumerate(found[:position])
                          if value in one.outputs), None)
            made = None if maker is None else _moved(found[maker], reader, value)
            if maker is not None and made is not None:
                found[maker], found[position] = made
                break
    return found


def _passed_on(launches: Sequence[Launch], reader: Launch,
               kept: set[Value]) -> Iterator[Value]:
    """Values that only the epilogue of `reader`, a product with one result, reads."""
    if not isinstance(reader.spec, Contract) or len(reader.outputs) != 1:
        return
    for x in reader.inputs[2:]:
        if isinstance(x, Value) and x not in kept and not x.by_value \
                and x.shape == reader.outputs[0].shape and x.type != _NARROW \
                and sum(y is x for one in launches for y in one.inputs) == 1:
            yield x


def _moved(maker: Launch, reader: Launch,
           value: Value) -> tuple[Launch, Launch] | None:
    """Both launches with the factor in the first; None if there is none in it."""
    spec, at = maker.spec, maker.outputs.index(value)
    if not isinstance(spec, Contract):
        return None
    param = reader.spec.epilogue.params[reader.inputs.index(value) - 1]
    plain, dtype = _uncast(reader.spec.epilogue)
    parts = factored(plain, 0, {param})
    if parts is None:
        return None
    factor, rest = parts
    if param in rest.params or len(factor.body.statements) < _WORTH:
        return None
    first = replace(spec, epilogue=_with_factor(spec.epilogue, at, factor), saves=False)
    types = tuple(map(type_of, maker.inputs))
    if first.result_types(types) != spec.result_types(types):
        return None
    second = replace(reader.spec, epilogue=_times(plain, rest, param, dtype))
    return replace(maker, spec=first), replace(reader, spec=second)


def _with_factor(epilogue: Function, at: int, factor: Function) -> Function:
    """The epilogue with the factor of a result in its place."""

    def build(b: Builder) -> tuple[Scalar, ...]:
        results = list(b.call(epilogue, *epilogue.params))
        (results[at],) = b.call(factor, results[at])
        return tuple(results)

    return compose(epilogue.name, epilogue.params, build)


def _uncast(function: Function) -> tuple[Function, str | None]:
    """A function of one result before a cast that ends it, and the cast's dtype."""
    body = function.body
    (result,) = body.yields
    for s in body.statements:
        if isinstance(s, Let) and s.op == "cast" and s.results == (result,):
            before = replace(body, yields=(s.args[0],))
            return replace(function, body=before, origin=None), s.attr
    return function, None


def _times(epilogue: Function, rest: Function, param: str,
           dtype: str | None) -> Function:
    """The rest of an epilogue times the factor that is read, as a dtype."""

    def build(b: Builder) -> tuple[Scalar, ...]:
        (other,) = b.call(rest, *rest.params)
        result = b.mul(other, param)
        return (b.let("cast", result, attr=dtype) if dtype else result,)

    return compose(epilogue.name, epilogue.params, build)
