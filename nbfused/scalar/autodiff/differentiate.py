"""Derivatives of scalar functions: reverse mode (`vjp`) and forward mode (`jvp`).

Both read one table of partial derivatives, the vocabulary's, and give functions that
both take again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from ..ir.build import Builder, inline
from ..ir.clean import clean
from ..ir.nodes import (
    Block,
    Custom,
    For,
    Function,
    Let,
    Literal,
    Origin,
    Statement,
    Value,
    While,
    defined,
    read,
    rename,
    walk,
)
from ..typing.promotion import Type
from ..typing.types import Typed, result_types, specialize
from .activity import differentiable
from .adjoints import Adjoint
from .forward import Forward
from .preferences import PREFERENCES, preferring
from .reach import NOTHING, Cotangent
from .repeated import check_arrays, check_repeated
from .replay import Replay
from .rules import has_rule

__all__ = ["buffer_bytes", "checkpoint_bytes", "jvp", "vjp"]

@lru_cache(maxsize=4096)
def vjp(function: Function, wrt: tuple[bool, ...], present: tuple[bool, ...] = (),
        from_outputs: bool = False, raw: tuple[str, ...] = ()) -> Function:
    """Reverse-mode derivative; what loops record, they say themselves.

    Parameters
    ----------
    function : Function
        The primal, parameters p, results r.
    wrt : tuple of bool
        The parameters whose cotangents are wanted.
    present : tuple of bool
        The results that have a cotangent; the others' is zero.
    from_outputs : bool
        Read the primal's results from parameters of their own where that saves
        computing them again (tanh: ``1 - y * y``).
    raw : tuple of str
        The parameters that are raw arrays.

    Returns
    -------
    Function
        Parameters: p, then ``<r>_out`` for each result if `from_outputs`, then a
        cotangent for each present result, then an array of cotangents for each raw
        array in `wrt`.  Results: a cotangent for each other parameter in `wrt`; the
        literal zero where there is no influence.

    Raises
    ------
    NotDifferentiableError
        An operation has no derivative, or the derivative needs what the function
        overwrites.
    """
    if function.origin is not None and not from_outputs:
        found = second_order(function, function.origin, wrt, present)
        if found is not None:
            return found
    primal, function = function, inline(function, has_rule)
    wanted = [p for p, w in zip(function.params, wrt, strict=True) if w]
    function, active = differentiable(function, set(wanted))
    taken = defined(function.body) | set(function.params)
    fresh = Builder(taken).fresh  # a derivative has such names already
    bars = {p: f"{p}_bar" if f"{p}_bar" not in taken else fresh(f"{p}_bar")
            for p in wanted if p in raw}
    check_arrays(function, active)
    b = Replay(function, taken | set(bars.values()), active, bars)
    cotangents = [b.fresh(f"g{k}") for k, here in enumerate(present) if here]
    outs = [b.fresh(f"out{k}") for k in range(len(present))] if from_outputs else []
    adjoint: Adjoint = {}
    seeds = iter(cotangents)
    for r, here in zip(function.results, present, strict=True):
        if here:
            b.accumulate(adjoint, r, Cotangent(next(seeds)))
    b.share()
    start = b.reverse_block(function.body.statements, adjoint)
    yields = tuple(b.exact(adjoint.get(p, NOTHING)) for p in wanted if p not in raw)
    body = Block(tuple(b.statements), yields)
    if from_outputs:
        body = _read_outputs(body, start, function, outs)
    found = clean(Function(f"{function.name}_vjp",
                           (*function.params, *outs, *cotangents, *bars.values()),
                           body, function.pyfile, function.line))
    check_repeated(function, found, b.bars.values())
    if raw or from_outputs or not _loops(function):
        return found
    names = iter(cotangents)
    return replace(found, origin=Origin(
        primal, tuple(wanted), tuple(next(names) if h else None for h in present)))


def _loops(function: Function) -> bool:
    """Whether there are loops, and no rules that need not be symmetric."""
    found = {type(s) for s in walk(function.body)}
    return Custom not in found and bool(found & {For, While})


def second_order(function: Function, origin: Origin, wrt: tuple[bool, ...],
                 present: tuple[bool, ...]) -> Function | None:
    """The `vjp` of a gradient, which is symmetric: in forward mode.

    That is far shorter, and faster, than the reverse of a reverse through loops.  None
    where it takes a parameter that the gradient does not.
    """
    primal = origin.primal
    b = Builder({*function.params, *primal.params})
    wanted = [p for p, w in zip(function.params, wrt, strict=True) if w]
    along = {p: b.fresh("u") for p, here in zip(origin.wanted, present, strict=True)
             if here}
    us = tuple(along.values())
    rows = vjp(primal, tuple(p in wanted for p in primal.params),
               tuple(g is not None for g in origin.cotangents))
    given = (*primal.params, *(g for g in origin.cotangents if g is not None))
    marks = tuple(p in along for p in given)
    directions = tuple(along[p] for p in given if p in along)
    slopes = b.call(jvp(rows, marks), *given, *directions)[len(rows.results):]
    along = {p: along[p] for p in primal.params if p in along}
    change = _tangents(primal, along)
    own = b.call(change, *change.params)
    table = dict(zip(origin.cotangents, own, strict=True))
    table.update(zip((p for p in primal.params if p in wanted), slopes, strict=True))
    # What it gives is again a gradient: that of the tangents of the primal.
    again = Origin(change, tuple(wanted), origin.cotangents) \
        if set(wanted) <= set(primal.params) else None
    found = clean(Function(
        f"{function.name}_vjp", (*function.params, *us),
        Block(tuple(b.statements), tuple(table[p] for p in wanted)),
        function.pyfile, function.line, again))
    missing = set(given) - set(function.params)
    return None if missing & read(found.body) else found


def _tangents(primal: Function, along: Mapping[str, str]) -> Function:
    """The tangents alone; parameters: the primal's, then those of `along`."""
    b = Builder({*primal.params, *along.values()})
    forward = jvp(primal, tuple(p in along for p in primal.params))
    results = b.call(forward, *primal.params, *along.values())
    body = Block(tuple(b.statements), results[len(primal.results):])
    return clean(Function(f"{primal.name}_jvp", (*primal.params, *along.values()),
                          body, primal.pyfile, primal.line))


def _read_outputs(body: Block, start: int, function: Function,
                  outs: list[str]) -> Block:
    """Read results from parameters in the reverse part of `body`."""
    computed = {r for s in function.body.statements for r in s.results}
    table: dict[str, Value] = {r: o for r, o in zip(function.results, outs, strict=True)
                               if isinstance(r, str) and r in computed}
    tail = rename(Block(body.statements[start:], body.yields), table, lambda n: n)
    return Block((*body.statements[:start], *tail.statements), tail.yields)


@lru_cache(maxsize=4096)
def jvp(function: Function, wrt: tuple[bool, ...]) -> Function:
    """Forward-mode derivative.

    Parameters
    ----------
    function : Function
        The primal.
    wrt : tuple of bool
        The parameters that have a tangent.

    Returns
    -------
    Function
        Parameters: the primal's, then a tangent for each in `wrt`, which for a raw
        array is an array.  Results: the primal's, then their tangents.

    Raises
    ------
    NotDifferentiableError
        An operation has no derivative.
    """
    function = inline(function, has_rule)
    wanted = [p for p, w in zip(function.params, wrt, strict=True) if w]
    function, active = differentiable(function, set(wanted))
    b = Forward(function, active)
    b.tangent.update({p: b.fresh(f"{p}_dot") for p in wanted})
    params = (*function.params, *(str(b.tangent[p]) for p in wanted))
    body = b.block(function.body, (True,) * len(function.results))
    return clean(Function(f"{function.name}_jvp", params, body, function.pyfile,
                          function.line))


def checkpoint_bytes(function: Function, wrt: tuple[bool, ...],
                     types: tuple[Type, ...]) -> dict[str, int]:
    """Bytes that loops record in reverse mode, for each evaluation.

    Parameters
    ----------
    function : Function
        The primal.
    wrt : tuple of bool
        The parameters whose cotangents are wanted.
    types : tuple of Type
        Of the parameters, which are numbers.

    Returns
    -------
    dict
        By preference, ``"checkpoint"`` and ``"recompute"``.
    """
    results = result_types(function, types)
    found = {}
    for prefer in PREFERENCES:
        d = vjp(preferring(function, prefer, every=True), wrt, (True,) * len(results))
        found[prefer] = buffer_bytes(d, (*types, *results))
    return found


def buffer_bytes(function: Function, types: tuple[Type, ...]) -> int:
    """The bytes of a function's buffers for parameters of some types."""
    typed = specialize(function, types)
    return sum(_bytes(s, typed) for s in walk(typed.function.body))


def _bytes(s: Statement, typed: Typed) -> int:
    if not (isinstance(s, Let) and s.op == "buffer"):
        return 0
    (size,) = s.args
    assert isinstance(size, Literal)
    return int(size.text) * typed.dtypes[s.results[0]].itemsize
