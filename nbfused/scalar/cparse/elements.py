"""Elements of arrays in C bodies: indexing and extents."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from .scope import ExpressionParser, Scope
from .tree import kind
from .types import INT64, is_array
from .values import Typed, Variable, constant, converted, member, subscript

__all__ = ["EXPRESSIONS", "LOOP", "nested", "part", "place", "pointee", "rank",
           "refuse_bytes", "struct_in"]

#: What CuPy calls the shape of the loop, and the place in it.
LOOP = "_ind"
#: The prefix of what CuPy calls the array of an output that is not raw.
OUTPUT = "_raw_"



def _parse_element(scope: Scope, node: Any) -> Typed:
    """Parse ``x[i]``, or ``x.shape()[k]``."""
    whole = struct_in(scope, node.name)
    if whole is not None and is_array(whole.dtype):
        return part(scope, node, whole, scope.typed(node.subscript))
    base, indices = _unnested(node)
    if kind(base) == "FuncCall" and whole is None:
        return _extent(scope, node, base, indices)
    if whole is not None:
        return scope.grammar.operate(scope, node, "[]",
                                     (whole, scope.value(node.subscript)))
    single = pointee(scope, node)
    if single is not None:
        return Typed(ast.Name(single.name, ast.Load()), single.dtype)
    variable, index = place(scope, node)
    if variable.leaves:
        parts = (subscript(n, index, ast.Load()) for n in variable.leaves)
        return Typed(nested(variable.dtype, parts), variable.dtype)
    return Typed(subscript(variable.name, index, ast.Load()), variable.dtype)


def part(scope: Scope, node: Any, whole: Typed, index: Typed) -> Typed:
    """An element of an array that is a member of a struct."""
    names = whole.dtype.names or ()
    if index.number is not None and index.number not in range(len(names)):
        scope.refuse(node, f"the index {index.number} is out of range: there are "
                           f"{len(names)} elements")
    if index.number is not None:
        return member(whole, int(index.number.real))
    found = ast.Subscript(whole.node, index.node, ast.Load())
    return Typed(found, whole.dtype[names[0]])


def struct_in(scope: Scope, node: Any) -> Typed | None:
    """The struct, or the array in one, that is indexed; None of anything else."""
    if kind(node) == "ArrayRef" and kind(_unnested(node)[0]) in ("StructRef",):
        found = scope.value(node)
        return found if found.dtype.names is not None else None
    variable = scope.lookup(node.name) if kind(node) == "ID" else None
    called = kind(node) == "FuncCall" and kind(node.name) == "ID"
    named = variable is not None and variable.kind == "value"
    if called or named or kind(node) in ("StructRef", "BinaryOp"):
        found = scope.value(node)
        return found if found.dtype.names is not None else None
    return None


def nested(dtype: np.dtype, parts: Iterator[ast.expr]) -> ast.expr:
    """The value of a struct from its numbers."""
    if dtype.names is None:
        return next(parts)
    return ast.Tuple([nested(dtype[n], parts) for n in dtype.names], ast.Load())


def place(scope: Scope, node: Any,
          bytes_too: bool = False) -> tuple[Variable, ast.expr]:
    """The array and the flat index of an element; of a byte, if that will do."""
    base, indices = _unnested(node)
    if kind(base) != "ID":
        scope.refuse(node, "only an array that has a name is indexed; give the pointer "
                           "one, as in const T* p = …")
    variable = scope.lookup(base.name)
    if variable is None:
        scope.refuse(node, f"{base.name!r} is not declared")
    if variable.kind == "unset":
        scope.refuse(node, f"the pointer {base.name!r} has no array yet; give it one, "
                           f"as in {base.name} = &x[k]")
    if variable.kind == "value":
        scope.refuse(node, f"{base.name!r} is a number, it cannot be indexed; "
                           "declare it as 'raw' and pass an array to index it")
    if variable.held is not None and not bytes_too:
        refuse_bytes(scope, node, variable)
    if variable.kind == "raw":
        return variable, _moved(variable, _raw_index(scope, node, base.name, indices))
    if len(indices) != len(variable.shape):
        scope.refuse(node, f"{base.name!r} has {len(variable.shape)} dimensions, "
                           f"got {len(indices)} indices")
    return variable, _moved(variable, _flat([scope.typed(k) for k in indices],
                                            [constant(n) for n in variable.shape]))


def refuse_bytes(scope: Scope, node: Any, variable: Variable) -> NoReturn:
    """Refuse to read or write a single byte of an array of another type."""
    scope.refuse(node, f"a byte of {variable.name!r}, an array of {variable.held}, is "
                       "not read or written here; cast the pointer back, as in "
                       "*(T*)&p[k]")


def _moved(variable: Variable, index: ast.expr) -> ast.expr:
    """An index that counts from where a pointer points to."""
    if not variable.offset:
        return index
    return ast.BinOp(ast.Name(variable.offset, ast.Load()), ast.Add(), index)


def pointee(scope: Scope, node: Any) -> Variable | None:
    """The value that ``*p`` and ``p[0]`` are, where `p` points to one variable."""
    inner = node.expr if kind(node) == "UnaryOp" else node.name
    variable = scope.lookup(inner.name) if kind(inner) == "ID" else None
    if variable is None or variable.kind != "pointee":
        return None
    if kind(node) == "ArrayRef" and scope.typed(node.subscript).number != 0:
        scope.refuse(node, f"{inner.name!r} points to one variable, which is "
                           f"{inner.name}[0]")
    return variable


def _raw_index(scope: Scope, node: Any, name: str, indices: Sequence[Any]) -> ast.expr:
    """The flat index in C order into a raw array, also from an array of indices."""
    if len(indices) > 1:
        scope.refuse(node, f"{name!r} is indexed by one flat index in C order, or "
                           "by an array of indices")
    several = scope.lookup(getattr(indices[0], "name", None) or "")
    if several is None or several.kind != "local":
        return _flat([scope.typed(indices[0])], [constant(1)])
    parts = [Typed(subscript(several.name, constant(k), ast.Load()), several.dtype)
             for k in range(several.shape[0])]
    shape = [scope.lookup(f"_{name}_shape{k}") for k in range(len(parts))]
    if None in shape or scope.lookup(f"_{name}_shape{len(parts)}") is not None:
        scope.refuse(node, f"{name!r} does not have {len(parts)} dimensions")
    return _flat(parts, [ast.Name(s.name, ast.Load()) for s in shape if s])


def _flat(indices: Sequence[Typed], shape: Sequence[ast.expr]) -> ast.expr:
    """The index in C order."""
    if all(k.number is not None for k in indices) and all(
            isinstance(n, ast.Constant) for n in shape):
        total = 0
        for k, n in zip(indices, shape, strict=True):
            total = total * n.value + int(k.number.real)  # type: ignore[attr-defined, union-attr]
        return constant(total)
    found: ast.expr | None = None
    for k, n in zip(indices, shape, strict=True):
        index = converted(k, INT64)
        found = index if found is None else ast.BinOp(
            ast.BinOp(found, ast.Mult(), n), ast.Add(), index)
    assert found is not None
    return found


def _extent(scope: Scope, node: Any, base: Any, indices: Sequence[Any]) -> Typed:
    """Parse ``x.shape()[k]``."""
    target = base.name
    owner = getattr(getattr(target, "name", None), "name", "")
    field = getattr(getattr(target, "field", None), "name", "")
    axis = scope.typed(indices[0]).number
    if owner.startswith(OUTPUT) and field == "shape" and _is_output(scope, owner):
        owner = LOOP
    if owner == LOOP and field == "get" and len(indices) == 1:
        return _loop_index(scope, node, axis)
    if axis is None and field in ("shape", "strides") and len(indices) == 1 and rank(
            scope, owner):
        return _at_an_axis(scope, node, owner, field, indices[0])
    if field == "strides" and len(indices) == 1:
        return _stride(scope, node, owner, axis)
    variable = scope.lookup(f"_{owner}_{field}{axis}")
    if variable is None or len(indices) > 1:
        scope.refuse(node, "only x.shape()[k] of a raw x, _ind.shape()[k] and "
                           "_ind.get()[k], with a k below the number of axes, "
                           "known in the last, are understood here")
    return Typed(ast.Name(variable.name, ast.Load()), variable.dtype)


def _at_an_axis(scope: Scope, node: Any, owner: str, field: str, index: Any) -> Typed:
    """Parse ``x.shape()[k]`` and ``x.strides()[k]`` where `k` is a variable."""
    def chosen(k: int) -> ast.expr:
        if field == "strides":
            return _stride(scope, node, owner, k).node
        return ast.Name(scope.blocks[0][f"_{owner}_shape{k}"].name, ast.Load())

    axis, count = converted(scope.typed(index), INT64), rank(scope, owner) or 0
    found = chosen(count - 1)
    for k in reversed(range(count - 1)):
        here = ast.Compare(axis, [ast.Eq()], [constant(k)])
        found = ast.IfExp(here, chosen(k), found)
    return Typed(found, INT64)


def _is_output(scope: Scope, owner: str) -> bool:
    """True for the array of an output, which has the shape of the loop."""
    variable = scope.blocks[0].get(owner.removeprefix(OUTPUT))
    return variable is not None and variable.kind == "value" and not variable.constant


def _stride(scope: Scope, node: Any, owner: str, axis: Any) -> Typed:
    """Parse ``x.strides()[k]``, in bytes; a raw array lies in C order."""
    array, count = scope.lookup(owner), rank(scope, owner)
    if array is None or array.kind != "raw" or count is None or not isinstance(
            axis, int) or not 0 <= axis < count:
        scope.refuse(node, "x.strides()[k] needs a raw x and a known k below the "
                           "number of its axes")
    found = Typed(constant(array.dtype.itemsize), INT64)
    for k in range(axis + 1, count):
        extent = ast.Name(scope.blocks[0][f"_{owner}_shape{k}"].name, ast.Load())
        found = Typed(ast.BinOp(found.node, ast.Mult(), extent), INT64)
    return Typed(converted(Typed(found.node, np.dtype(np.bool_)), INT64), INT64)


def rank(scope: Scope, owner: str) -> int | None:
    """The number of axes of a raw array, or of the loop; None if it is unknown."""
    found = 0
    while scope.lookup(f"_{owner}_shape{found}") is not None:
        found += 1
    return found or None


def _loop_index(scope: Scope, node: Any, axis: Any) -> Typed:
    """Parse ``_ind.get()[k]``, the place of the element along an axis of the loop."""
    count = rank(scope, LOOP) or 0
    if not isinstance(axis, int) or not 0 <= axis < count:
        scope.refuse(node, f"the axis of _ind.get()[k] must be known and below {count}")
    extents = [scope.blocks[0][f"_{LOOP}_shape{k}"] for k in range(axis, count)]
    index = scope.blocks[0]["i"]
    found: ast.expr = ast.Name(index.name, ast.Load())
    for e in extents[1:]:
        found = ast.BinOp(found, ast.FloorDiv(), ast.Name(e.name, ast.Load()))
    if axis:  # along the first it stays below the extent
        found = ast.BinOp(found, ast.Mod(), ast.Name(extents[0].name, ast.Load()))
    return Typed(found, index.dtype)


def _unnested(node: Any) -> tuple[Any, list[Any]]:
    """The array and the indices of ``x[i][j]``."""
    indices: list[Any] = []
    while kind(node) == "ArrayRef":
        indices.insert(0, node.subscript)
        node = node.name
    return node, indices


EXPRESSIONS: dict[str, ExpressionParser] = {"ArrayRef": _parse_element}
