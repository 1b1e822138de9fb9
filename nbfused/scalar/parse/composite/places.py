"""Targets of assignments: names, elements and parts of arrays, components, fields."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from ....support.records import record
from ...ir.nodes import Block, For, Literal, Value, literal
from ...language.composite import COMPOSITES
from ...source.structure import Local, Mutable, Records, Struct, Values, Vector, rebuild
from ..branches import refuse_alias
from ..elements import (
    NOT_INDEXED,
    choose,
    field_number,
    parse_index,
    part_at,
    position,
    wrapped,
)
from ..scope import Scope
from .parts import (
    Element,
    Part,
    cut,
    element_of,
    element_parts,
    is_cut,
    rank_of,
    shape_of,
)
from .vectors import (
    component_at,
    flattened,
    load_element,
    row_vector,
    rows_of,
    store_element,
)

__all__ = ["NO_STORE", "Place", "assign", "place"]


@record(frozen=True)
class Place:
    """A target that can be read and assigned; ``load(like)`` knows the value to come.

    `each` runs a function on every element of a part of an array.
    """

    load: Callable[..., Values]
    store: Callable[[Values], None]
    each: Callable[[Callable[[Place], None]], None] | None = None


@record(frozen=True)
class _Variable:
    """A variable, or a part of one at a path of integers."""

    root: str
    path: tuple[Value, ...] = ()


def assign(scope: Scope, target: ast.expr, values: Values) -> None:
    """Assign `values` to a name, an element, or a tuple of these."""
    if isinstance(target, ast.Name):
        scope.env[target.id] = values
        return
    if isinstance(target, (ast.Subscript, ast.Attribute)):
        place(scope, target).store(values)
        return
    if not isinstance(target, (ast.Tuple, ast.List)):
        raise scope.error(target, NO_STORE)
    names = target.elts
    starred = next((n for n in names if isinstance(n, ast.Starred)), None)
    if starred is not None:
        raise scope.error(starred, NO_STORE)
    if not isinstance(values, tuple) or len(values) != len(names):
        got = f"tuple of {len(values)}" if isinstance(values, tuple) else "number"
        raise scope.error(target, f"cannot unpack a {got} into {len(names)} names")
    for part, value in zip(names, values, strict=True):
        assign(scope, part, value)


def place(scope: Scope, target: ast.Subscript | ast.Attribute) -> Place:
    """The place that `target` names; its index is computed once."""
    found = _reference(scope, target)
    match found:
        case Element():
            return _element(scope, target, found)
        case Part():
            return Place(lambda like=(): _row(scope, target, found, like),
                         lambda value: _fill(scope, target, found, value),
                         lambda act: _each(scope, target, found, lambda e: act(
                             _element(scope, target, e))))
        case _Variable(root, path):
            return Place(lambda like=(): part_at(scope, target, scope.env[root], path),
                         lambda value: _replace(scope, target, root, path, value))
        case Struct():
            return Place(lambda like=(): found,
                         lambda value: _fill_struct(scope, target, found, value))
    raise scope.error(target, _IMMUTABLE if isinstance(found, tuple) else NO_STORE)


def _element(scope: Scope, target: ast.expr, element: Element) -> Place:
    return Place(lambda like=(): load_element(scope, element),
                 lambda value: store_element(scope, target, element, value))


# What a target stands for -------------------------------------------------------------


def _reference(scope: Scope, node: ast.expr) -> Any:
    """An `Element`, a `Part`, a `_Variable`, or the value of `node`."""
    if isinstance(node, ast.Subscript):
        return _at(scope, node, _reference(scope, node.value))
    if isinstance(node, ast.Attribute):
        if isinstance(node.value, ast.Name) and node.value.id not in scope.env:
            raise scope.error(node, NO_STORE)
        return _field(scope, node, _reference(scope, node.value))
    found = scope.values(node)
    if isinstance(node, ast.Name) and node.id in scope.env and \
            isinstance(found, tuple) and not _of_arrays(scope, found):
        return _Variable(node.id)
    return found


def _of_arrays(scope: Scope, found: Values) -> bool:
    """True of structs and tuples whose parts are arrays, or parts of arrays."""
    return isinstance(found, tuple) and bool(found) and all(
        isinstance(v, Part) or rank_of(scope, v) is not None or _of_arrays(scope, v)
        for v in found)


def _at(scope: Scope, node: ast.Subscript, whole: Any) -> Any:
    """The reference that a subscript of another one is."""
    if isinstance(whole, _Variable):
        value = part_at(scope, node, scope.env[whole.root], whole.path)
        if isinstance(value, tuple) and not isinstance(value, Records):
            index = parse_index(scope, node, value)
            inner = part_at(scope, node, value, index)
            outer = isinstance(inner, Part) or rank_of(scope, inner) is not None
            return inner if outer else _Variable(whole.root, (*whole.path, *index))
        whole = value
    if isinstance(whole, Records):
        return element_parts(scope, node, whole)
    if isinstance(whole, Element) and whole.kind:
        return _component(scope, node, whole)
    if isinstance(whole, tuple):
        index = parse_index(scope, node, whole)
        if not all(isinstance(k, Literal) for k in index):
            raise scope.error(node, _IMMUTABLE)
        return _settled(part_at(scope, node, whole, index))
    if is_cut(scope, node, whole):
        return _settled(cut(scope, node, whole))
    return element_of(scope, node, whole, parse_index(scope, node, whole))


def _component(scope: Scope, node: ast.Subscript, element: Element) -> Element:
    """Parse ``x[i][k]`` of an array of vectors, and ``x[i][r, c]`` of matrices."""
    index = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    shape = COMPOSITES[element.kind].shape
    if len(index) != len(shape):
        raise scope.error(node, f"a {element.kind} is indexed by {len(shape)} integers "
                                f"where it is assigned to, got {len(index)}")
    values = tuple(scope.value(k) for k in index)
    for k, extent in zip(values, shape, strict=True):
        if not isinstance(k, Literal) or k.kind != "int" or not 0 <= int(
                k.text) < extent:
            raise scope.error(node, f"a component of an element is assigned at an "
                                    f"integer of 0 to {extent - 1} that is known when "
                                    "the function is parsed; change a copy, and assign "
                                    "that")
    return component_at(element, values)


def _field(scope: Scope, node: ast.Attribute, whole: Any) -> Any:
    """The reference that an attribute of another one is."""
    if isinstance(whole, Element) and whole.kind:
        names = COMPOSITES[whole.kind]._fields
        if node.attr not in names:
            raise scope.error(node, f"a {whole.kind} has no component {node.attr!r}; "
                                    f"it has {', '.join(names)}")
        return component_at(whole, _axes_of(whole.kind, names.index(node.attr)))
    value = part_at(scope, node, scope.env[whole.root], whole.path) \
        if isinstance(whole, _Variable) else whole
    if isinstance(value, Struct):
        k = field_number(scope, node, value, node.attr)
        if isinstance(whole, _Variable) and not isinstance(value[k], Part) and \
                rank_of(scope, value[k]) is None:
            path = _axes_of(value.kind, k) if isinstance(value, Vector) else \
                (literal(k),)
            return _Variable(whole.root, (*whole.path, *path))
        return _settled(value[k])
    if node.attr in ("primal", "derivative") and scope.is_array(value):  # in a rule
        return _settled(scope.values(node))
    raise scope.error(node, NO_STORE)


def _axes_of(kind: str, k: int) -> tuple[Value, ...]:
    """The index of a component: one integer, or the row and column of a matrix."""
    shape = COMPOSITES[kind].shape
    return (literal(k),) if len(shape) == 1 else tuple(
        map(literal, divmod(k, shape[1])))


def _settled(found: Values) -> Any:
    """A part without spans as an element."""
    return found.element if isinstance(found, Part) and not found.spans else found


# Parts of arrays ----------------------------------------------------------------------


def _row(scope: Scope, target: ast.expr, part: Part, like: Values) -> Values:
    """The vector in a part, of as many components as `like`; the part itself."""
    if isinstance(like, Vector) and len(part.spans) == len(
            COMPOSITES[like.kind].shape) and not part.kind:
        return row_vector(scope, target, like.kind, part)
    return part


def _fill(scope: Scope, target: ast.expr, part: Part, value: Values) -> None:
    """Parse ``x[i] = v``: a vector, another part, or a number for every element."""
    if isinstance(value, Vector) and not part.kind:
        shape = COMPOSITES[value.kind].shape
        if len(shape) != len(part.spans):
            raise scope.error(target, f"a part of {len(part.spans)} axes is assigned a "
                                      f"{value.kind}, which has {len(shape)}")
        for k, v in enumerate(value):
            element = element_of(scope, target, part, _axes_of(value.kind, k))
            store_element(scope, target, element, v)
        return
    source = rank_of(scope, value) if not isinstance(value, tuple) else None
    if source is None:
        _each(scope, target, part, lambda e: store_element(scope, target, e, value))
        return
    if source != len(part.spans):
        raise scope.error(target, f"a part of {len(part.spans)} axes is assigned "
                                  f"{scope.describe(value)} of {source}")
    if getattr(value, "array", value) == part.array:
        raise scope.error(target, f"a part of '{part.array}' is assigned another part "
                                  "of it, which may be overwritten before it is read; "
                                  "write a loop in the order that you mean")
    _each_index(scope, shape_of(scope, part), lambda index: store_element(
        scope, target, element_of(scope, target, part, index), load_element(
            scope, element_of(scope, target, value, index))))


def _each(scope: Scope, target: ast.expr, part: Part,
          act: Callable[[Element], None]) -> None:
    """Run `act` on every element, in loops."""
    _each_index(scope, shape_of(scope, part),
                lambda index: act(element_of(scope, target, part, index)))


def _each_index(scope: Scope, extents: tuple[Value, ...],
                act: Callable[[tuple[Value, ...]], None],
                before: tuple[Value, ...] = ()) -> None:
    """Run `act` on every index below `extents`, in loops."""
    if not extents:
        act(before)
        return
    index = scope.emitter.fresh("k")
    with scope.emitter.region() as body:
        _each_index(scope, extents[1:], act, (*before, index))
    scope.emitter.statements.append(For((), index, extents[0], (), (),
                                        Block(tuple(body), ())))


def _fill_struct(scope: Scope, target: ast.expr, fields: Struct,
                 value: Values) -> None:
    """Parse ``p[i] = s``: the fields of a struct into an element of an array."""
    if not isinstance(value, Struct) or value.names != fields.names:
        got = f"the fields {', '.join(value.names)}" if isinstance(value, Struct) \
            else scope.describe(value)
        raise scope.error(target, f"an element has the fields "
                                  f"{', '.join(fields.names)}, and is assigned {got}")
    read = [load_element(scope, v.element) if isinstance(v, Part) and not v.spans
            else v for v in value]
    for part, v in zip(fields, read, strict=True):
        found = _settled(part)
        if isinstance(found, Struct):
            _fill_struct(scope, target, found, v)
        elif isinstance(found, Part):
            _fill(scope, target, found, v)
        else:
            store_element(scope, target, found, v)


# Variables ----------------------------------------------------------------------------


def _replace(scope: Scope, node: ast.AST, root: str, index: tuple[Value, ...],
             value: Values) -> None:
    """Assign a part of the variable `root`."""
    whole = scope.env[root]
    refuse_alias(scope, node, root, scope.env, _changed(scope, node, whole, index))
    scope.env[root] = _replaced(scope, node, scope.env[root], index, value)


def _changed(scope: Scope, node: ast.AST, whole: Values,
             index: tuple[Value, ...]) -> list[Values]:
    """The parts of `whole` that change with the one at `index`; any if it varies."""
    if len(index) < 2 or not isinstance(whole, (Local, Mutable)):
        return [whole]
    head, rest = index[0], index[1:]
    parts = [whole[position(scope, node, whole, head)]] if isinstance(
        head, Literal) else whole
    return [found for part in parts for found in _changed(scope, node, part, rest)]


def _replaced(scope: Scope, node: ast.AST, whole: Values, index: tuple[Value, ...],
              value: Values) -> Values:
    """`whole` with another part; a variable index selects in every element."""
    if not index:
        return _fit(scope, node, whole, value)
    if isinstance(whole, Vector) and rows_of(whole) is not whole:
        rows = _replaced(scope, node, rows_of(whole), index, value)
        return flattened(whole.kind, rows)
    if not isinstance(whole, (Local, Vector, Mutable)):
        raise scope.error(node, _IMMUTABLE if isinstance(whole, tuple) else
                          NOT_INDEXED)
    head, rest = index[0], index[1:]
    if isinstance(head, Literal):
        k = position(scope, node, whole, head)
        new = _replaced(scope, node, whole[k], rest, value)
        return rebuild(whole, (*whole[:k], new, *whole[k + 1:]))
    head = wrapped(scope, node, whole, head)
    parts = []
    for k, old in enumerate(whole):
        here = scope.emitter.emit("eq", head, literal(k))
        new = _replaced(scope, node, old, rest, value)
        parts.append(_fit(scope, node, old, choose(scope, node, here, new, old)))
    return rebuild(whole, parts)


def _fit(scope: Scope, node: ast.AST, old: Values, new: Values) -> Values:
    """`new` as a part that takes the place of `old`."""
    kinds = {v.kind if isinstance(v, Vector) else "" for v in (old, new)}
    if isinstance(old, tuple) != isinstance(new, tuple) or len(kinds) > 1 or (
            isinstance(old, tuple) and len(old) != len(new)):
        raise scope.error(node, "the element and the value assigned to it differ in "
                                "shape")
    if not isinstance(old, tuple):
        return new
    parts = [_fit(scope, node, o, n) for o, n in zip(old, new, strict=True)]
    same = type(old) is type(new) and all(map(operator.is_, parts, new))
    return new if same else rebuild(old, parts)  # an array stays the one that it is


#: Refusal of a target of an assignment.
NO_STORE = ("only names, elements v[i], fields of what the function built, and tuples "
            "of these are assigned")
_IMMUTABLE = ("a tuple cannot be changed, nor a local array or struct that belongs to "
              "the caller; take a copy by list(v), p._replace(x=...) or "
              "dataclasses.replace(p, x=...), or nf.local(n)")
