"""Pointers of C bodies: an array, and a place in it that a variable has."""

from __future__ import annotations

import ast
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from ...support.records import record
from .changes import EXPRESSIONS as _CHANGES
from .changes import changes_before
from .elements import place, pointee, refuse_bytes
from .expressions import COMPARISONS, as_type, combine
from .scope import ExpressionParser, Scope
from .tree import kind
from .types import INT64
from .values import Typed, Variable, constant, converted, store, subscript

__all__ = ["EXPRESSIONS", "Pointer", "address", "declare_pointer", "element_of",
           "move_pointer", "pointer"]



@record(frozen=True)
class Pointer:
    """The value of a pointer.

    Attributes
    ----------
    variable
        The array, of which the offset is left out.
    place
        The element that it points to, counted from the array's first.
    dtype
        Of the elements as they are read: a cast may give another.
    """

    variable: Variable
    place: ast.expr
    dtype: np.dtype

    @property
    def first(self) -> bool:
        """True if it points to the first element for certain."""
        return isinstance(self.place, ast.Constant) and self.place.value == 0


def pointer(scope: Scope, node: Any) -> Pointer | None:
    """The pointer that ``x``, ``x + k``, ``&x[k]`` or ``(T*)p`` is; None of a value."""
    match kind(node):
        case "ID":
            variable = scope.lookup(node.name)
            if variable is None or variable.kind not in ("raw", "local"):
                return None
            return _pointer(variable, _offset(variable))
        case "UnaryOp" if node.op == "&" and kind(node.expr) == "ArrayRef":
            return _pointer(*place(scope, node.expr, bytes_too=True))
        case "UnaryOp" if node.op == "&" and kind(node.expr) == "UnaryOp" \
                and node.expr.op == "*":
            return pointer(scope, node.expr.expr)
        case "BinaryOp" if node.op in ("+", "-"):
            return _moved(scope, node)
        case "UnaryOp" if node.op[-2:] in ("++", "--"):
            return _stepped(scope, node)
        case "Cast" if kind(node.to_type.type) == "PtrDecl":
            found = pointer(scope, node.expr)
            return found and _cast(found, scope.dtype(node.to_type))
    return None


def _cast(found: Pointer, dtype: np.dtype) -> Pointer:
    """Parse ``(T*)p``: to the bytes of an array, back from them, or to no avail."""
    variable, held = found.variable, found.variable.held
    if dtype == found.dtype:
        return found
    if held is None and dtype.kind in "iu" and dtype.itemsize == 1:
        place = _times(found.place, ast.Mult(), found.dtype.itemsize)
        return Pointer(replace(variable, dtype=dtype, held=found.dtype), place, dtype)
    if held == dtype:
        place = _times(found.place, ast.FloorDiv(), dtype.itemsize)
        return Pointer(replace(variable, dtype=dtype, held=None), place, dtype)
    return replace(found, dtype=dtype)


def _times(place: ast.expr, op: ast.operator, size: int) -> ast.expr:
    """A place counted in bytes, or in elements again."""
    if size == 1 or (isinstance(place, ast.Constant) and place.value == 0):
        return place
    return ast.BinOp(place, op, constant(size))


def _pointer(variable: Variable, at: ast.expr) -> Pointer:
    """A pointer to an element of an array."""
    if variable.kind == "local":  # its rows lie one behind the other
        variable = replace(variable, shape=(prod(variable.shape),))
    return Pointer(replace(variable, offset=""), at, variable.dtype)


def _offset(variable: Variable) -> ast.expr:
    """The place of the first element of a variable in its array."""
    return ast.Name(variable.offset, ast.Load()) if variable.offset else constant(0)


def _moved(scope: Scope, node: Any) -> Pointer | None:
    """Parse ``p + k``, ``k + p``, ``p - k``."""
    left, right = node.left, node.right
    found = pointer(scope, left)
    if found is None and node.op == "+":
        left, right = right, left
        found = pointer(scope, left)
    if found is None:
        return None
    if node.op == "-" and pointer(scope, right) is not None:
        return None  # their difference is a number
    return replace(found, place=_advanced(scope, right, node.op, found.place))


def _stepped(scope: Scope, node: Any) -> Pointer | None:
    """Parse ``p++`` and ``--p`` inside an expression, before which they run."""
    variable = scope.lookup(node.expr.name) if kind(node.expr) == "ID" else None
    if variable is None or not variable.offset:
        return None
    before = changes_before(scope, node, node.op.lstrip("p"), [(variable.offset,)])
    if id(node) not in before.values:
        now = ast.Name(variable.offset, ast.Load())
        found = Typed(now, INT64)
        if node.op.startswith("p"):
            kept = scope.declare(f"__old_{node.expr.name}", INT64)
            before.statements.append(ast.Assign([store(kept.name)], now))
            found = Typed(ast.Name(kept.name, ast.Load()), INT64)
        op = ast.Add() if node.op[-1] == "+" else ast.Sub()
        before.statements.append(ast.Assign(
            [store(variable.offset)], ast.BinOp(now, op, constant(1))))
        before.values[id(node)] = found
    return _pointer(variable, before.values[id(node)].node)


def _advanced(scope: Scope, node: Any, op: str, at: ast.expr) -> ast.expr:
    """A place some elements ahead, or back."""
    step = scope.typed(node)
    if step.dtype.kind not in "biu":
        scope.refuse(node, f"a pointer moves by an integer, got {step.dtype}")
    if isinstance(at, ast.Constant) and step.number is not None:
        count = int(step.number.real) * (1 if op == "+" else -1)
        return constant(int(at.value) + count)  # type: ignore[arg-type]
    moved = converted(as_type(scope, node, step, INT64), INT64)
    if isinstance(at, ast.Constant) and at.value == 0 and op == "+":
        return moved
    return ast.BinOp(at, ast.Add() if op == "+" else ast.Sub(), moved)


def address(scope: Scope, node: Any) -> tuple[Variable, ast.expr, np.dtype]:
    """The raw array, the index and the dtype of ``&x[i]``, or of ``x + i``."""
    found = pointer(scope, node)
    if found is None:
        scope.refuse(node, "the address of an element of a raw array is expected "
                           "here, as in atomicAdd(&y[i], x)")
    if found.variable.kind != "raw":
        scope.refuse(node, f"{found.variable.name!r} must be a raw array")
    return found.variable, found.place, found.dtype


def element_of(scope: Scope, node: Any) -> tuple[Variable, ast.expr]:
    """The array and the index of ``x[k]``, or of ``*p``."""
    if kind(node) == "ArrayRef":
        return place(scope, node)
    found = pointer(scope, node.expr)
    if found is not None and found.variable.held is not None:
        refuse_bytes(scope, node, found.variable)
    if found is None:
        scope.refuse(node, "* takes a pointer: a raw array or an array of the body, x, "
                           "or x + k; the bits of a number as another type are "
                           "*(int*)&x")
    if found.dtype != found.variable.dtype:
        scope.refuse(node, f"the pointer would read {found.variable.dtype} as "
                           f"{found.dtype}; convert the value")
    return found.variable, found.place


def _parse_unary(scope: Scope, node: Any) -> Typed:
    """Parse ``*p``, or another operator of one operand."""
    if node.op != "*":
        return _CHANGES["UnaryOp"](scope, node)
    single = pointee(scope, node)
    if single is not None:
        return Typed(ast.Name(single.name, ast.Load()), single.dtype)
    variable, index = element_of(scope, node)
    return Typed(subscript(variable.name, index, ast.Load()), variable.dtype)


def _parse_binary(scope: Scope, node: Any) -> Typed:
    """Parse ``q - p`` and ``p < q`` of one array, or an operator of two numbers."""
    if node.op != "-" and node.op not in COMPARISONS:
        return _CHANGES["BinaryOp"](scope, node)
    left, right = pointer(scope, node.left), pointer(scope, node.right)
    if left is None or right is None:
        return _CHANGES["BinaryOp"](scope, node)
    if left.variable.name != right.variable.name:
        scope.refuse(node, f"{node.op} of two pointers needs one array, got "
                           f"{left.variable.name!r} and {right.variable.name!r}")
    a, b = (Typed(p.place, INT64) for p in (left, right))
    return combine(scope, node, node.op, a, b)


def declare_pointer(scope: Scope, node: Any) -> list[ast.stmt]:
    """Parse ``T* p = &x[k];``: a further name of the array, with a place of its own."""
    if node.init is None:
        place = scope.declare(f"__{node.name}_place", INT64)
        scope.blocks[-1][node.name] = Variable(
            node.name, scope.dtype(node), "unset", (),
            "const" in node.type.type.quals, None, place.name)
        return [ast.Assign([store(place.name)], constant(0))]
    if _of_variable(scope, node):
        return []
    found = _checked(scope, node, node.init, node.name)
    dtype = scope.dtype(node, Typed(found.place, found.dtype))
    if dtype != found.dtype:
        scope.refuse(node, f"the pointer {node.name!r} is of {dtype}, got an array of "
                           f"{found.dtype}")
    fixed = found.variable.constant or "const" in node.type.type.quals
    variable = replace(found.variable, constant=fixed)
    place = scope.declare(f"__{node.name}_place", INT64)
    scope.blocks[-1][node.name] = replace(variable, offset=place.name)
    return [_place(place.name, found)]


def _of_variable(scope: Scope, node: Any) -> bool:
    """Parse ``T* p = &x``: a further name of a variable, which is ``*p``."""
    target: Any = node.init.expr if kind(node.init) == "UnaryOp" and \
        node.init.op == "&" else None
    variable = scope.lookup(target.name) if kind(target) == "ID" else None
    if variable is None or variable.kind != "value":
        return False
    dtype = scope.dtype(node, Typed(constant(0), variable.dtype))
    if dtype != variable.dtype:
        scope.refuse(node, f"the pointer {node.name!r} is of {dtype}, got a variable "
                           f"of {variable.dtype}; the bits of a number as another type "
                           "are *(int*)&x")
    fixed = "const" in node.type.type.quals
    if variable.constant and not fixed:
        scope.refuse(node, f"{target.name!r} is an input or const; point to it by "
                           f"const {node.name}, or copy it to a variable")
    scope.blocks[-1][node.name] = replace(variable, kind="pointee", number=None,
                                          constant=fixed)
    return True


def move_pointer(scope: Scope, node: Any, variable: Variable,
                 value: Any) -> list[ast.stmt]:
    """Parse ``p = &x[k]``; its array stays the one that it was declared with."""
    name = node.lvalue.name if kind(node) == "Assignment" else node.expr.name
    if not variable.offset:
        scope.refuse(node, f"{name!r} is an array; assign its elements, as in "
                           f"{name}[i] = …, or move a pointer of its own")
    found = _checked(scope, node, value, name)
    if variable.kind == "unset":
        return _set(scope, node, name, variable, found)
    if found.variable.name != variable.name:
        scope.refuse(node, f"the pointer {name!r} points into {variable.name!r} and "
                           f"cannot into {found.variable.name!r}; take an index, or "
                           "two branches")
    return [_place(variable.offset, found)]


def _set(scope: Scope, node: Any, name: str, variable: Variable,
         found: Pointer) -> list[ast.stmt]:
    """The first array that a pointer gets, which stays its array from here on."""
    if found.dtype != variable.dtype:
        scope.refuse(node, f"the pointer {name!r} is of {variable.dtype}, got an array "
                           f"of {found.dtype}")
    block = next(b for b in reversed(scope.blocks) if name in b)
    block[name] = replace(found.variable, offset=variable.offset,
                          constant=variable.constant or found.variable.constant)
    return [_place(variable.offset, found)]


def _place(name: str, found: Pointer) -> ast.stmt:
    return ast.Assign([store(name)],
                      converted(Typed(found.place, np.dtype(np.bool_)), INT64))


def _checked(scope: Scope, node: Any, value: Any, name: str) -> Pointer:
    """The pointer that a pointer variable gets."""
    found = pointer(scope, value)
    if found is not None and found.variable.leaves:
        scope.refuse(node, f"the pointer {name!r} would point into an array of "
                           "structs, which is not understood here; keep the index")
    if found is None:
        scope.refuse(node, f"the pointer {name!r} takes a raw array or an array of the "
                           "body: x, x + k, or &x[k]")
    if found.dtype != found.variable.dtype:
        scope.refuse(node, f"the pointer {name!r} would read {found.variable.dtype} as "
                           f"{found.dtype}; convert the values")
    return found


EXPRESSIONS: dict[str, ExpressionParser] = {
    "UnaryOp": _parse_unary, "BinaryOp": _parse_binary,
}
