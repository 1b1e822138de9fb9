"""Typed expressions: Python syntax trees of which each has a C type."""

from __future__ import annotations

import ast

import numpy as np

from ...support.records import record

__all__ = ["Typed", "Variable", "call", "constant", "converted", "literal", "member",
           "operand", "store", "subscript", "zero"]

Number = bool | int | float | complex


@record(frozen=True)
class Typed:
    """An expression of the scalar language that has the value and type of C's.

    `number` is its value where that is known now.
    """

    node: ast.expr
    dtype: np.dtype
    number: Number | None = None


@record(frozen=True)
class Variable:
    """A variable of C.

    Attributes
    ----------
    name
        In the Python tree: unique, where C's may be hidden by another.
    dtype
        Of the value, or of the elements.
    kind
        ``"value"``, ``"local"`` (an array of the body), ``"raw"``, ``"pointee"`` (a
        value that a pointer points to), ``"unset"`` (a pointer without its array) or
        ``"lambda"``.
    shape
        Of a local array.
    constant
        Whether it must not be assigned.
    number
        The value of a constant that is known now.
    offset
        Of a pointer into an array: the variable that has the place of its first element
        there, counted in elements.
    leaves
        Of an array of structs: the arrays of its numbers.
    held
        Of a pointer to the bytes of an array: the dtype of the array.
    """

    name: str
    dtype: np.dtype
    kind: str = "value"
    shape: tuple[int, ...] = ()
    constant: bool = False
    number: Number | None = None
    offset: str = ""
    leaves: tuple[str, ...] = ()
    held: np.dtype | None = None


def constant(number: Number) -> ast.expr:
    """A number as it is written."""
    return ast.Constant(number)


def call(name: str, *args: ast.expr) -> ast.expr:
    """A call; names of functions begin with a dot, which no C name does."""
    return ast.Call(ast.Name(f".{name}", ast.Load()), list(args), [])


def store(name: str) -> ast.expr:
    """A name that is assigned."""
    return ast.Name(name, ast.Store())


def subscript(name: str, index: ast.expr, context: ast.expr_context) -> ast.expr:
    """Make the tree of ``name[index]``."""
    return ast.Subscript(ast.Name(name, ast.Load()), index, context)


def literal(number: Number | np.generic, dtype: np.dtype) -> Typed:
    """A number of a type, wrapped around or rounded to it."""
    if type(number) is int and dtype.kind in "iu":
        number &= 2**64 - 1  # NumPy takes none beyond 64 bits
    with np.errstate(all="ignore"):
        rounded = np.asarray(number).astype(dtype).item()
    return Typed(constant(rounded), dtype, rounded)


def member(value: Typed, k: int) -> Typed:
    """The member of a struct at a position; a struct is a tuple."""
    assert value.dtype.names is not None
    dtype = value.dtype[value.dtype.names[k]]
    return Typed(ast.Subscript(value.node, constant(k), ast.Load()), dtype)


def zero(dtype: np.dtype) -> Typed:
    """The value that a variable begins with, for an undefined one may be any."""
    if dtype.names is None:
        return literal(0, dtype)
    return Typed(ast.Tuple([zero(dtype[n]).node for n in dtype.names], ast.Load()),
                 dtype)


def converted(value: Typed, dtype: np.dtype) -> ast.expr:
    """`value` as C converts it; a number of that type for certain."""
    if value.number is None and value.dtype == dtype:
        return value.node
    node = value.node
    if value.number is not None:
        node = constant(literal(value.number, dtype).number or 0)
    return call(dtype.name, node)


def operand(value: Typed, dtype: np.dtype) -> ast.expr:
    """`value` beside an operand of the dtype: as `converted`, numbers as written."""
    if value.number is None:
        return converted(value, dtype)
    return literal(value.number, dtype).node
