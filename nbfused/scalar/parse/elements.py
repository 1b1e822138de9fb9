"""Elements of arrays, local arrays, tuples and structs."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..ir.nodes import Literal, Value, literal
from ..source.phrases import builtin_for
from ..source.resolve import operation
from ..source.structure import Local, Records, Struct, Values, Vector, leaves, rebuild
from .branches import refuse_choice
from .composite.parts import Part, cut, element_of, element_parts, is_cut
from .composite.vectors import load_element, rows_of, store_element
from .scope import ExpressionParser, Scope

__all__ = ["EXPRESSIONS", "MOST_ELEMENTS", "NOT_INDEXED", "NUMBER_METHODS",
           "array_property", "call_method", "checked_index", "choose", "dtype_text",
           "field_number", "parse_index", "part_at", "position", "wrapped"]

#: Elements of a local array at most: a dynamic index selects among all of them.
MOST_ELEMENTS = 64

#: What is said where the element of an array is taken for the array.
NOT_INDEXED = ("a number cannot be indexed; an array is one of its elements here: "
               "read others in an nf.rawkernel, or by a raw parameter of an "
               "nf.ElementwiseKernel")

#: The operations that are methods of a number, as of Python's and NumPy's; a dtype says
#: what a number is cast to, or its bits are read as.
NUMBER_METHODS = {"conjugate": "conj", "conj": "conj", "astype": "cast", "view": "bits"}
_OF_DTYPES = ("astype", "view")
_METHODS = {"load": None, "load_once": "once", "store": None, "store_once": "once"}


# Reading ------------------------------------------------------------------------------


def _parse_subscript(scope: Scope, node: ast.Subscript, stem: str) -> Values:
    """An element of an array, or a part of a tuple."""
    extent = _parse_extent(scope, node, stem)
    if extent is not None:
        return extent
    whole = scope.values(node.value)
    if isinstance(whole, Records) and not (isinstance(node.slice, ast.Constant) and
                                           isinstance(node.slice.value, str)):
        return element_parts(scope, node, whole)
    if isinstance(whole, tuple) and isinstance(node.slice, ast.Slice):
        return _slice(scope, node, whole, node.slice)
    if is_cut(scope, node, whole):
        part = cut(scope, node, whole)
        return part if part.spans else load_element(scope, part.element, stem)
    index = parse_index(scope, node, whole)
    if isinstance(whole, tuple):
        found = part_at(scope, node, whole, index)
        single = isinstance(found, Part) and not found.spans
        return load_element(scope, found.element, stem) if single else found
    return load_element(scope, element_of(scope, node, whole, index), stem)


EXPRESSIONS: dict[type[ast.expr], ExpressionParser] = {ast.Subscript: _parse_subscript}


def parse_index(scope: Scope, node: ast.Subscript, whole: Values) -> tuple[Value, ...]:
    """The integers by which `whole` is indexed."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if any(isinstance(p, ast.Slice) for p in parts):
        raise scope.error(node, "slices are taken of arrays whose number of axes is "
                                "known; index with as many integers as the array has "
                                "axes")
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
        raise scope.error(node, NOT_INDEXED)
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


def part_at(scope: Scope, node: ast.AST, whole: Values,
             index: Iterable[Value]) -> Values:
    """The part of a tree at a path."""
    for i in index:
        whole = _part(scope, node, whole, i)
    return whole


def _part(scope: Scope, node: ast.AST, whole: Values, index: Value) -> Values:
    """A part of a tuple: by a literal, or selected from all."""
    if isinstance(whole, Vector):
        whole = rows_of(whole)
    if not isinstance(whole, tuple):
        raise scope.error(node, NOT_INDEXED)
    if isinstance(index, Literal):
        return whole[position(scope, node, whole, index)]
    index = wrapped(scope, node, whole, index)
    found = whole[-1]
    for k in reversed(range(len(whole) - 1)):
        here = scope.emitter.emit("eq", index, literal(k))
        found = choose(scope, node, here, whole[k], found)
    return found


def position(scope: Scope, node: ast.AST, whole: tuple[Any, ...],
              index: Literal) -> int:
    """A literal index, in range."""
    k = int(index.value.real)
    if not -len(whole) <= k < len(whole):
        raise scope.error(node, f"the index {k} is out of range: there are "
                                f"{len(whole)} elements")
    return k % len(whole)


def wrapped(scope: Scope, node: ast.AST, whole: tuple[Any, ...], index: Value) -> Value:
    """A dynamic index, counted from the end where it is negative."""
    if not 0 < len(whole) <= MOST_ELEMENTS:
        raise scope.error(node, f"a tuple or local array of {len(whole)} elements "
                                "cannot be indexed by a variable; 1 to "
                                f"{MOST_ELEMENTS} can, use an array for more")
    e = scope.emitter
    index = e.emit("index", index)  # refuses what is no integer
    below = e.emit("lt", index, literal(0))
    return e.emit("select", below, e.emit("add", index, literal(len(whole))), index)


def choose(scope: Scope, node: ast.AST, condition: Value, a: Values,
            b: Values) -> Values:
    """Select ``a if condition else b`` for trees of one shape."""
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        return rebuild(a, [choose(scope, node, condition, x, y)
                           for x, y in zip(a, b, strict=True)])
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


def dtype_text(node: ast.Call) -> Any:
    """The dtype that a method is given by its name, a text; None if it is not."""
    if not (isinstance(node.func, ast.Attribute) and node.func.attr in _OF_DTYPES and
            len(node.args) == 1 and isinstance(node.args[0], ast.Constant)):
        return None
    text: Any = node.args[0].value
    try:
        return np.dtype(text)
    except TypeError:
        return text


def _dtype_named(scope: Scope, node: ast.Call, args: list[Values]) -> str:
    """The name of the dtype that is the only argument of a method."""
    target = getattr(args[0], "target", None) if len(args) == 1 else None
    op = operation(target.type if isinstance(target, np.dtype) else target)
    if op is None or op.op != "cast":
        raise scope.error(node, f"{ast.unparse(node.func)}() takes a dtype, as "
                                "np.int32 or 'int32'")
    return np.dtype(op.attr).name if op.attr in ("bool", "int", "float") \
        else str(op.attr)


def call_method(scope: Scope, node: ast.Call, owner: Values, name: str,
                args: list[Values], stem: str) -> Values:
    """Parse ``a.load(i)``, ``a.store(i, value)``, and ``z.conjugate()`` of a number."""
    if name in NUMBER_METHODS:
        if name in _OF_DTYPES:
            return scope.emitter.emit(NUMBER_METHODS[name], scope.number(node, owner),
                                      attr=_dtype_named(scope, node, args), stem=stem)
        if args:
            raise scope.error(node, f"{name}() takes no arguments")
        return scope.emitter.emit(NUMBER_METHODS[name], scope.number(node, owner),
                                  stem=stem)
    if not (scope.is_array(owner) or isinstance(owner, Part)) or name not in _METHODS:
        raise scope.error(node, f"{ast.unparse(node.func).rpartition('.')[0]!r} is "
                                f"{scope.describe(owner)} here, not a function or "
                                f"module, and has no method {name!r}" + (
                                    builtin_for(name) or
                                    f"; an array has {', '.join(_METHODS)}, a number "
                                    f"{', '.join(NUMBER_METHODS)}"))
    stores = name.startswith("store")
    if len(args) < 1 + stores:
        raise scope.error(node, f"{name}() takes an index{' and a value' * stores}")
    index = checked_index(scope, node, owner, tuple(args[:-1] if stores else args))
    element = element_of(scope, node, owner, index)
    if not stores:
        return load_element(scope, element, stem, _METHODS[name])
    store_element(scope, node, element, args[-1], _METHODS[name])
    return ()
