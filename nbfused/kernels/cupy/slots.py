"""The slots of a reduction kernel as scalar functions, and the `Reduce` they make."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from ...errors import DefinitionError, ScalarSyntaxError
from ...op.base import is_number
from ...scalar.cparse import (
    Parameter,
    number_dtypes,
    number_of,
    parse_c,
    parse_c_expression,
    type_of,
)
from ...scalar.ir.build import Builder
from ...scalar.ir.nodes import Function, Literal, Value, drop_params, used_params
from ...scalar.parse.functions import parse
from ...scalar.printing.python import python_text
from ...scalar.typing.types import compute_dtype
from ...specs import Map, Reduce
from ...specs.base import KEPT
from ...specs.vjp.functions import compose
from ...support.records import record
from .bodies import Ranks, check_real, shapes
from .combining import Combining, c_combining, python_combining, struct_combining
from .parameters import ParameterInfo

__all__ = ["Slots", "TypedSlots", "check_slots", "named_by_post", "reduce_spec",
           "stored_spec"]

_INT64 = np.dtype(np.int64)
_SIZES = ("_in_ind_size", "_out_ind_size")
Types = tuple[tuple[str, np.dtype], ...]
Slot = str | Callable[..., Any]


@record(frozen=True)
class Slots:
    """The slots of a reduction kernel, as the user gave them."""

    name: str
    inputs: tuple[ParameterInfo, ...]
    outputs: tuple[ParameterInfo, ...]
    map: Slot
    reduce: Slot
    post: Slot
    identity: Any
    reduce_type: str | None
    preamble: str

    def mapped(self, types: Types, ranks: Ranks, dtype: np.dtype | None) -> TypedSlots:
        """The functions where the placeholders stand for `types`."""
        return _typed_slots(self, types, ranks, dtype)


@record(frozen=True)
class TypedSlots:
    """A reduction kernel for some dtypes.

    Attributes
    ----------
    function
        The map: of the inputs, and what else it names.
    combining
        How its results are combined.
    post
        Of the state, then of what it names; an output for each result.
    dtypes
        Of the outputs.
    materialize
        Whether the map has to run by itself: it reads raw arrays, or `_j`.
    reads
        The outputs that the post map reads before it assigns them.
    state, stored
        Where it reads some: the finished state, for a reduction of its own, and the
        outputs, of that state, of what they held and of what else is named.
    """

    function: Function
    combining: Combining
    post: Function
    dtypes: tuple[np.dtype, ...]
    materialize: bool
    reads: tuple[str, ...] = ()
    state: Function | None = None
    stored: Function | None = None

    @property
    def mapped_names(self) -> tuple[str, ...]:
        """The names of the mapped values where the map runs by itself."""
        return tuple([f"mapped{k}" for k in range(len(self.function.results))])

    def reduced(self) -> TypedSlots:
        """The reduction alone, to a state in the dtype that it is computed in."""
        assert self.state is not None
        dtypes = [compute_dtype(d) for d in number_dtypes(self.combining.dtype)]
        if len(dtypes) == 1:
            dtypes *= len(self.state.results)
        return replace(self, post=self.state, dtypes=tuple(dtypes))

    def text(self) -> str:
        """The functions that run: the map, the combine, what is done after them."""
        found = [self.function, self.combining.combine.merge, self.stored or self.post]
        return "\n".join(python_text(drop_params(f, used_params(f))) for f in found)


def check_slots(slots: Slots) -> None:
    """`DefinitionError` for a slot, an identity or a type that cannot be one."""
    for what, slot in (("map_expr", slots.map), ("reduce_expr", slots.reduce),
                       ("post_map_expr", slots.post)):
        if not isinstance(slot, str) and not callable(slot):
            raise DefinitionError(f"'{what}' must be a string in C, or a function; got "
                                  f"{type(slot).__name__}")
        if what != "post_map_expr" and isinstance(slot, str) and not slot.strip():
            raise DefinitionError(f"'{what}' must be an expression in C, got {slot!r}")
    if not isinstance(slots.reduce_type, (str, type(None))):
        raise DefinitionError("'reduce_type' must be a type of C, such as 'float', got "
                              f"{slots.reduce_type!r}")
    _check_identity(slots)


def _check_identity(slots: Slots) -> None:
    given = slots.identity
    parts = given if isinstance(given, tuple) else (given,)
    known = all(x is None or (is_number(x) and np.asarray(x).dtype.kind in "biufcO")
                for x in parts) or isinstance(given, str)
    if not known or (isinstance(slots.reduce, str) and len(parts) != 1):
        raise DefinitionError(
            "'identity' must be a number, an expression in C, None, or, for a function "
            f"of states, a tuple of a number for each part; got {given!r}")


@lru_cache(maxsize=KEPT)
def _typed_slots(slots: Slots, types: Types, ranks: Ranks,
                 dtype: np.dtype | None) -> TypedSlots:
    table = dict(types)
    outs = tuple(dtype or p.dtype or table[p.ctype] for p in slots.outputs)
    chosen = outs[0]
    if slots.reduce_type is not None:
        chosen = _reduce_type(slots, slots.reduce_type, types)
    function = _map(slots, types, ranks, chosen)
    combining = _combining(slots, types, chosen, len(function.results))
    if combining.before is not None:
        inner, before = function, combining.before
        function = compose(inner.name, inner.params, lambda b: b.call(
            before, *b.call(inner, *inner.params)))
    post, reads, state, stored = _post(slots, types, combining, outs)
    used = {p for p, u in zip(function.params, used_params(function), strict=True) if u}
    raw = any(p.raw for p in slots.inputs) or "_j" in used
    return TypedSlots(function, combining, post, outs, raw, reads,
                      state, stored)


def _reduce_type(slots: Slots, text: str, types: Types) -> np.dtype:
    try:
        return type_of(text, slots.name, types, slots.preamble)
    except ScalarSyntaxError as error:
        if error.filename == f"<preamble of {slots.name}>":
            raise
        raise DefinitionError(
            f"{slots.name}: 'reduce_type' must be a type of C, a letter of a parameter "
            "or a struct that the preamble defines, such as 'float' or 'pair<T>'; got "
            f"{text!r}") from None


def _map(slots: Slots, types: Types, ranks: Ranks, chosen: np.dtype) -> Function:
    """The map, its result in the dtype that is reduced."""
    table = dict(types)
    params = [Parameter(p.name, p.dtype or table[p.ctype], p.raw) for p in slots.inputs]
    extra = ("_J", "_j", *_SIZES, *shapes(ranks))
    if isinstance(slots.map, str):
        params += [Parameter(n, _INT64) for n in extra]
        return parse_c_expression(slots.map, slots.name, tuple(params), chosen, types,
                                  slots.preamble)
    function = parse(slots.map)
    known = {*extra, *(p.name for p in params)}
    unknown = [p for p in function.params if p not in known]
    if unknown:
        raise DefinitionError(f"{slots.name}: 'map_expr' takes {', '.join(unknown)}, "
                              "which is no input")
    if len(function.results) == 1:
        check_real(function, slots.name, [("a", chosen)],
                   {p.name: p.dtype for p in params})

    def build(b: Builder) -> tuple[Value, ...]:
        results = b.call(function, *function.params)
        if len(results) > 1:
            return results
        return (b.let("cast", results[0], attr=chosen.name),)

    return compose(slots.name, (*(p.name for p in params), "_J", "_j"), build)


def _combining(slots: Slots, types: Types, chosen: np.dtype, parts: int) -> Combining:
    start = slots.identity
    if chosen.names is not None:
        return _of_structs(slots, types, chosen)
    if isinstance(start, str):
        start = _identity(slots, start, chosen, types)
    elif isinstance(start, (complex, np.complexfloating)) and chosen.kind != "c":
        raise DefinitionError(f"{slots.name}: 'identity' is the complex number {start},"
                              f" but {chosen} is reduced")
    if isinstance(slots.reduce, str):
        if parts != 1:
            raise DefinitionError(f"{slots.name}: 'map_expr' gives {parts} values; "
                                  "combine them by a Python function")
        return c_combining(slots.reduce, slots.name, chosen, slots.reduce_type is None,
                           start, types, slots.preamble)
    starts = start if isinstance(start, tuple) else (start,) * parts
    return python_combining(slots.reduce, starts, chosen)


def _of_structs(slots: Slots, types: Types, chosen: np.dtype) -> Combining:
    """The combine of structs; its slots are C."""
    if not (isinstance(slots.map, str) and isinstance(slots.reduce, str)
            and isinstance(slots.post, str)):
        raise DefinitionError(
            f"{slots.name}: 'reduce_type' is the struct {slots.reduce_type}, which a "
            "Python function among the slots does not know; write all of them in C, or "
            "let Python functions return tuples, without a reduce_type")
    text = "" if slots.identity is None else str(slots.identity).strip()
    if text.startswith("{"):
        text = f"{slots.reduce_type}{text}"
    start = parse_c_expression(text, slots.name, (), chosen, types,
                               slots.preamble) if text else None
    return struct_combining(slots.reduce, slots.name, chosen, start, types,
                            slots.preamble)


def _identity(slots: Slots, text: str, dtype: np.dtype, types: Types) -> Any:
    """The number that the identity is; None for an empty text."""
    if not text.strip():
        return None
    found = number_of(text, slots.name, dtype, types, slots.preamble)
    if found is None:
        raise DefinitionError(f"{slots.name}: 'identity' must be a number that is "
                              f"known now, got {text!r}")
    return found


def _post(slots: Slots, types: Types, combining: Combining, outs: Sequence[np.dtype],
          ) -> tuple[Function, tuple[str, ...], Function | None, Function | None]:
    """The post map, the outputs that it reads, and then its parts in two launches."""
    table = dict(types)
    finish = combining.combine.finish
    if isinstance(slots.post, str):
        params = [Parameter("a", combining.dtype)]
        params += [Parameter(p.name, d, written=True)
                   for p, d in zip(slots.outputs, outs, strict=True)]
        params += [Parameter(p.name, p.dtype or table[p.ctype]) for p in slots.inputs]
        params += [Parameter(n, _INT64) for n in _SIZES]
        body = parse_c(slots.post, slots.name, tuple(params), types, slots.preamble)
    else:
        body = parse(slots.post)
    if len(body.results) != len(outs):
        raise DefinitionError(f"{slots.name}: 'post_map_expr' gives "
                              f"{len(body.results)} values for {len(outs)} outputs")
    count = len(number_dtypes(combining.dtype)) if isinstance(slots.post, str) \
        else len(finish.results)
    used = dict(zip(body.params, used_params(body), strict=True))
    names = [p for p in body.params[count:] if used[p]]
    reads = tuple(o.name for o in slots.outputs if o.name in names)
    extra = [p for p in names if p not in reads]

    def state(b: Builder) -> Sequence[Value]:
        found = b.call(finish, *finish.params)
        if combining.after is not None:
            found = b.call(combining.after, *found)
        return found[:count]

    def stored(b: Builder, state: Sequence[Value],
               named: Sequence[str]) -> tuple[Value, ...]:
        given: list[Value] = [p if p in named else Literal("int", "0")
                              for p in body.params[count:]]
        return tuple(b.let("cast", r, attr=d.name) for r, d in zip(
            b.call(body, *state, *given), outs, strict=True))

    post = compose(slots.name, (*finish.params, *extra),
                   lambda b: stored(b, state(b), extra))
    if not reads:
        return post, reads, None, None
    parts = body.params[:count]
    return post, reads, compose(slots.name, finish.params, lambda b: tuple(state(b))), \
        compose(slots.name, (*parts, *names), lambda b: stored(b, parts, names))


def named_by_post(mapped: TypedSlots, kinds: Mapping[str, str]) -> set[str]:
    """The names of the post map besides the state; `DefinitionError` for arrays."""
    count = len(mapped.combining.combine.finish.params)
    wanted = set(mapped.post.params[count:])
    unknown = wanted - set(kinds) - set(_SIZES)
    if unknown or any(kinds.get(n) == "element" for n in wanted):
        raise DefinitionError(f"{mapped.post.name}: 'post_map_expr' can name numbers "
                              "among the inputs, not arrays")
    return wanted


@lru_cache(maxsize=KEPT)
def stored_spec(mapped: TypedSlots) -> tuple[Map, tuple[str, ...]]:
    """The Map from a finished state to outputs that it reads, and its parameters."""
    stored = mapped.stored
    assert stored is not None
    elements = {*stored.params[:len(mapped.reduced().dtypes)], *mapped.reads}
    return Map(stored, tuple("element" if p in elements else "scalar"
                             for p in stored.params)), stored.params


@lru_cache(maxsize=KEPT)
def reduce_spec(mapped: TypedSlots, inputs: tuple[tuple[str, str], ...],
                axes: tuple[int, ...] | None,
                keepdims: bool) -> tuple[Reduce, tuple[str, ...]]:
    """The Reduce, and the names of its inputs in their order.

    Parameters
    ----------
    inputs
        The name and the kind, element or scalar, of each.
    """
    function = mapped.function
    if mapped.materialize:
        function = compose(function.name, mapped.mapped_names,
                           lambda b: mapped.mapped_names)
    kinds = dict(inputs)
    wanted = named_by_post(mapped, kinds)
    used = dict(zip(function.params, used_params(function), strict=True))
    params = [n for n, kind in inputs if kind == "element" or used.get(n)
              or n in wanted]
    params += [n for n in _SIZES if used.get(n) or n in wanted]
    implicit = ["_J"] if used.get("_J") else []
    whole = compose(function.name, (*params, *implicit), lambda b: b.call(
        function, *(p if used[p] else Literal("int", "0") for p in function.params)))
    spec = Reduce(whole, (*(kinds.get(p, "scalar") for p in params),
                          *("index" for _ in implicit)),
                  mapped.combining.combine, mapped.post, axes, keepdims)
    return spec, tuple(params)
