"""Elements of arrays, local arrays, tuples and structs: reading and writing them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any

from ...support.records import record
from ..ir.nodes import Literal, Value, literal
from ..source.structure import Local, Struct, Values, Vector, leaves, rebuild
from .branches import refuse_alias, refuse_choice
from .composite.parts import Part, cut, is_cut, whole_index
from .composite.vectors import loaded, stored
from .scope import ExpressionParser, Scope

__all__ = ["EXPRESSIONS", "MOST_ELEMENTS", "NO_STORE", "NUMBER_METHODS", "Place",
           "array_property", "assign", "call_method", "checked_index", "field_number",
           "place"]

#: Elements of a local array at most: a dynamic index selects among all of them.
MOST_ELEMENTS = 64

#: The operations that are methods of a number, as of Python's and NumPy's.
NUMBER_METHODS = {"conjugate": "conj", "conj": "conj"}
_METHODS = {"load": None, "load_once": "once", "store": None, "store_once": "once"}


@record(frozen=True)
class Place:
    """An element that can be read and assigned."""

    load: Callable[..., Values]
    store: Callable[[Values], None]


# Reading ------------------------------------------------------------------------------


def _parse_subscript(scope: Scope, node: ast.Subscript, stem: str) -> Values:
    """An element of an array, or a part of a tuple."""
    extent = _parse_extent(scope, node, stem)
    if extent is not None:
        return extent
    whole = scope.values(node.value)
    if isinstance(whole, tuple) and isinstance(node.slice, ast.Slice):
        return _slice(scope, node, whole, node.slice)
    if is_cut(scope, node, whole):
        part = cut(scope, node, whole)
        return part if part.spans else scope.emitter.load(*part.element, stem=stem)
    index = _parse_index(scope, node, whole)
    if isinstance(whole, tuple):
        return _part_at(scope, node, whole, index)
    array, index = whole_index(scope, node, whole, index)
    return scope.emitter.load(array, *index, stem=stem)


EXPRESSIONS: dict[type[ast.expr], ExpressionParser] = {ast.Subscript: _parse_subscript}


def _parse_index(scope: Scope, node: ast.Subscript, whole: Values) -> tuple[Value, ...]:
    """The integers by which `whole` is indexed."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if any(isinstance(p, ast.Slice) for p in parts):
        raise scope.error(node, "slices are read from arrays whose number of axes is "
                                "known, and are no targets of assignments; index "
                                "with as many integers as the array has axes")
    if isinstance(whole, Struct) and isinstance(node.slice, ast.Constant) and \
            isinstance(node.slice.value, str):
        return (literal(field_number(scope, node, whole, node.slice.value)),)
    return checked_index(scope, node, whole, scope.values(node.slice))


def checked_index(scope: Scope, node: ast.AST, whole: Values,
                  index: Values) -> tuple[Value, ...]:
    """The integers of an index into `whole`."""
    found = tuple(leaves(index))
    if any(isinstance(i, Literal) and i.kind not in ("int", "bool") for i in found):
        raise scope.error(node, "an index must be an integer; use int()")
    if isinstance(whole, tuple):
        return found
    if not scope.is_array(whole) and not isinstance(whole, Part):
        raise scope.error(node, "a number cannot be indexed")
    rank = len(whole.spans) if isinstance(whole, Part) else scope.arrays[whole]
    if rank is not None and rank != len(found):
        raise scope.error(node, f"the array has {rank} axes and is indexed by "
                                f"{len(found)} integers; write one for each axis, "
                                "a[i, j]")
    if any(isinstance(i, Literal) and i.value.real < 0 for i in found):
        raise scope.error(node, "an index of an array must be 0 or more; count from "
                                "the end with a.shape[k] - 1")
    return found


def _slice(scope: Scope, node: ast.Subscript, whole: tuple[Any, ...],
           part: ast.Slice) -> Values:
    """Some parts of a tuple, between bounds that are known now; a copy."""
    bounds = [None if b is None else scope.values(b)
              for b in (part.lower, part.upper, part.step)]
    if not all(b is None or (isinstance(b, Literal) and b.kind == "int")
               for b in bounds):
        raise scope.error(node, "a tuple is sliced between integers that are known "
                                "when the function is parsed")
    parts = whole[slice(*(None if b is None else b.value for b in bounds))]
    return Local(parts) if isinstance(whole, Local) else tuple(parts)


def _part_at(scope: Scope, node: ast.AST, whole: Values,
             index: Iterable[Value]) -> Values:
    """The part of a tree at a path."""
    for i in index:
        whole = _part(scope, node, whole, i)
    return whole


def _part(scope: Scope, node: ast.AST, whole: Values, index: Value) -> Values:
    """A part of a tuple: by a literal, or selected from all."""
    if not isinstance(whole, tuple):
        raise scope.error(node, "a number cannot be indexed")
    if isinstance(index, Literal):
        return whole[_position(scope, node, whole, index)]
    index = _wrap(scope, node, whole, index)
    found = whole[-1]
    for k in reversed(range(len(whole) - 1)):
        here = scope.emitter.emit("eq", index, literal(k))
        found = _choose(scope, node, here, whole[k], found)
    return found


def _position(scope: Scope, node: ast.AST, whole: tuple[Any, ...],
              index: Literal) -> int:
    """A literal index, in range."""
    k = int(index.value.real)
    if not -len(whole) <= k < len(whole):
        raise scope.error(node, f"the index {k} is out of range: there are "
                                f"{len(whole)} elements")
    return k % len(whole)


def _wrap(scope: Scope, node: ast.AST, whole: tuple[Any, ...], index: Value) -> Value:
    """A dynamic index, counted from the end where it is negative."""
    if not 0 < len(whole) <= MOST_ELEMENTS:
        raise scope.error(node, f"a tuple or local array of {len(whole)} elements "
                                "cannot be indexed by a variable; 1 to "
                                f"{MOST_ELEMENTS} can, use an array for more")
    e = scope.emitter
    index = e.emit("index", index)  # refuses what is no integer
    below = e.emit("lt", index, literal(0))
    return e.emit("select", below, e.emit("add", index, literal(len(whole))), index)


def _choose(scope: Scope, node: ast.AST, condition: Value, a: Values,
            b: Values) -> Values:
    """Select ``a if condition else b`` for trees of one shape."""
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        return tuple(_choose(scope, node, condition, x, y)
                     for x, y in zip(a, b, strict=True))
    if isinstance(a, tuple) or isinstance(b, tuple):
        raise scope.error(node, "a variable can choose among elements of the same "
                                "shape only")
    if a == b:
        return a
    refuse_choice(scope, node, "the element", a, b)
    return scope.emitter.emit("select", condition, a, b)


def field_number(scope: Scope, node: ast.AST, whole: Struct, name: str) -> int:
    """The position of a field."""
    if name not in whole.names:
        raise scope.error(node, f"the struct has no field {name!r}; it has "
                                f"{', '.join(whole.names)}")
    return whole.names.index(name)


# Properties ---------------------------------------------------------------------------


def _parse_extent(scope: Scope, node: ast.Subscript, stem: str) -> Value | None:
    """Parse ``a.shape[k]`` of an array whose rank is not known."""
    owner = node.value
    if not (isinstance(owner, ast.Attribute) and owner.attr == "shape"
            and isinstance(owner.value, ast.Name)):
        return None
    array = scope.env.get(owner.value.id)
    if not isinstance(array, str) or scope.arrays.get(array, 0) is not None:
        return None
    axis = scope.values(node.slice)
    if not (isinstance(axis, Literal) and axis.kind == "int"
            and int(axis.text) >= 0):
        raise scope.error(node, "the number of axes is not known here: write "
                                "a.shape[k] with an integer k of 0 or more")
    return scope.emitter.emit("extent", array, attr=axis.text, stem=stem)


def array_property(scope: Scope, node: ast.Attribute, array: str) -> Values:
    """Parse ``a.shape``, ``a.size``, ``a.ndim``, and ``a.strides`` in bytes."""
    rank = scope.arrays[array]
    if node.attr not in ("shape", "size", "ndim", "strides"):
        raise scope.error(node, f"an array has no attribute {node.attr!r} here; it "
                                "has shape, strides, size, ndim, load, store, "
                                "load_once and store_once")
    if rank is None:
        raise scope.error(node, "the number of axes is not known here; use "
                                "a.shape[k] with an integer k")
    if node.attr == "ndim":
        return literal(rank)
    op = "stride" if node.attr == "strides" else "extent"
    shape = tuple(scope.emitter.emit(op, array, attr=str(k), stem=op)
                  for k in range(rank))
    return shape if node.attr in ("shape", "strides") else _product(scope, shape)


def _product(scope: Scope, factors: Iterable[Value]) -> Value:
    found: Value = literal(1)
    for f in factors:
        found = f if found == literal(1) else scope.emitter.emit("mul", found, f)
    return found


def call_method(scope: Scope, node: ast.Call, owner: Values, name: str,
                args: list[Values], stem: str) -> Values:
    """Parse ``a.load(i)``, ``a.store(i, value)``, and ``z.conjugate()`` of a number."""
    if name in NUMBER_METHODS:
        if args:
            raise scope.error(node, f"{name}() takes no arguments")
        return scope.emitter.emit(NUMBER_METHODS[name], scope.number(node, owner),
                                  stem=stem)
    if not (scope.is_array(owner) or isinstance(owner, Part)) or name not in _METHODS:
        raise scope.error(node, f"{ast.unparse(node.func).rpartition('.')[0]!r} is "
                                f"{scope.describe(owner)} here, not a function or "
                                f"module, and has no method {name!r}; an array has "
                                f"{', '.join(_METHODS)}, a number "
                                f"{', '.join(NUMBER_METHODS)}")
    stores = name.startswith("store")
    if len(args) < 1 + stores:
        raise scope.error(node, f"{name}() takes an index{' and a value' * stores}")
    index = checked_index(scope, node, owner, tuple(args[:-1] if stores else args))
    owner, index = whole_index(scope, node, owner, index)
    if not stores:
        return scope.emitter.emit("load", owner, *index, stem=stem,
                                  attr=_METHODS[name])
    _store(scope, node, owner, index, args[-1], _METHODS[name])
    return ()


# Writing ------------------------------------------------------------------------------


def assign(scope: Scope, target: ast.expr, values: Values) -> None:
    """Assign `values` to a name, an element, or a tuple of these."""
    if isinstance(target, ast.Name):
        scope.env[target.id] = values
        return
    if isinstance(target, ast.Subscript):
        place(scope, target).store(values)
        return
    if not isinstance(target, (ast.Tuple, ast.List)):
        raise scope.error(target, NO_STORE)
    names = target.elts
    if not isinstance(values, tuple) or len(values) != len(names):
        got = f"tuple of {len(values)}" if isinstance(values, tuple) else "number"
        raise scope.error(target, f"cannot unpack a {got} into {len(names)} names")
    for part, value in zip(names, values, strict=True):
        assign(scope, part, value)


def _store(scope: Scope, node: ast.AST, array: str, index: tuple[Value, ...],
           value: Values, attr: str | None = None) -> None:
    """Assign an element of an array."""
    scope.emitter.store(array, *index, scope.number(node, value), attr=attr)


def place(scope: Scope, target: ast.Subscript) -> Place:
    """The element that `target` names; its index is computed once."""
    whole = scope.values(target.value)
    if is_cut(scope, target, whole) and not _slices(target):
        part = cut(scope, target, whole)
        if part.spans:
            return Place(lambda like=(): _row(scope, target, part, like),
                         lambda value: stored(scope, target, part, value))
        return _element(scope, target, part.array, part.element[1:])
    if not isinstance(whole, tuple):
        return _element(scope, target, *whole_index(
            scope, target, whole, _parse_index(scope, target, whole)))
    root, path = _path(scope, target)
    return Place(lambda like=(): _part_at(scope, target, scope.env[root], path),
                 lambda value: _replace(scope, target, root, path, value))


def _element(scope: Scope, target: ast.Subscript, array: str,
             index: tuple[Any, ...]) -> Place:
    """An element of an array."""
    return Place(lambda like=(): scope.emitter.load(array, *index),
                 lambda value: _store(scope, target, array, index, value))


def _slices(target: ast.Subscript) -> bool:
    """True if a slice is among the indices."""
    return any(isinstance(n, ast.Slice) for n in ast.walk(target.slice))


def _row(scope: Scope, target: ast.Subscript, part: Values, like: Values) -> Values:
    """The vector in a part, of as many components as `like`; the part itself."""
    names = like.names if isinstance(like, Vector) else ()
    found = loaded(scope, target, names, part) if names else None
    return part if found is None else found


def _path(scope: Scope, target: ast.Subscript) -> tuple[str, tuple[Value, ...]]:
    """The variable and the indices of ``v[i]``, ``v[i, j]`` or ``v[i][j]``."""
    nodes: list[ast.Subscript] = []
    inner: ast.expr = target
    while isinstance(inner, ast.Subscript):
        nodes.insert(0, inner)
        inner = inner.value
    if not isinstance(inner, ast.Name) or inner.id not in scope.env:
        raise scope.error(target, _IMMUTABLE)
    whole = scope.env[inner.id]
    return inner.id, tuple(i for n in nodes for i in _parse_index(scope, n, whole))


def _replace(scope: Scope, node: ast.AST, root: str, index: tuple[Value, ...],
             value: Values) -> None:
    """Assign a part of the local array `root`."""
    refuse_alias(scope, node, root, scope.env)
    scope.env[root] = _replaced(scope, node, scope.env[root], index, value)


def _replaced(scope: Scope, node: ast.AST, whole: Values, index: tuple[Value, ...],
              value: Values) -> Values:
    """`whole` with another part; a variable index selects in every element."""
    if not index:
        return _fit(scope, node, whole, value)
    if not isinstance(whole, Local):
        raise scope.error(node, _IMMUTABLE if isinstance(whole, tuple) else
                          "a number cannot be indexed")
    head, rest = index[0], index[1:]
    if isinstance(head, Literal):
        k = _position(scope, node, whole, head)
        new = _replaced(scope, node, whole[k], rest, value)
        return Local((*whole[:k], new, *whole[k + 1:]))
    head = _wrap(scope, node, whole, head)
    parts = []
    for k, old in enumerate(whole):
        here = scope.emitter.emit("eq", head, literal(k))
        new = _replaced(scope, node, old, rest, value)
        parts.append(_fit(scope, node, old, _choose(scope, node, here, new, old)))
    return Local(parts)


def _fit(scope: Scope, node: ast.AST, old: Values, new: Values) -> Values:
    """`new` as a part that takes the place of `old`."""
    if isinstance(old, tuple) != isinstance(new, tuple) or (
            isinstance(old, tuple) and len(old) != len(new)):
        raise scope.error(node, "the element and the value assigned to it differ in "
                                "shape")
    if not isinstance(old, tuple):
        return new
    return rebuild(old, [_fit(scope, node, o, n)
                         for o, n in zip(old, new, strict=True)])


#: Refusal of a target of an assignment.
NO_STORE = "only names, elements v[i], and tuples of these are assigned"
_IMMUTABLE = ("a tuple cannot be changed, nor a local array that belongs to the "
              "caller; make a copy with list(v), or use nf.local(n)")
