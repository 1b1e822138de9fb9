"""Names and arrays of C bodies: scopes, types, indexing."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from ...errors import ScalarSyntaxError
from ..source import Source
from .types import ALIASES, spelled
from .values import Typed, Variable, constant, converted, subscript

__all__ = ["Arrays"]

_INT64 = np.dtype(np.int64)


class Arrays:
    """The variables in sight, and reading elements.

    Parameters
    ----------
    sources
        Text by the name of the file that pycparser was given.
    types
        What the names of types stand for here.
    outside
        What the names of functions stand for; filled on the way.
    """

    def __init__(self, sources: Mapping[str, Source], types: Mapping[str, np.dtype],
                 outside: dict[str, Any]) -> None:
        self.sources, self.types, self.outside = sources, types, outside
        self.scopes: list[dict[str, Variable]] = [{}]
        self.taken: set[str] = set()

    def refuse(self, node: Any, message: str) -> NoReturn:
        """Raise a `ScalarSyntaxError` at a node of C."""
        coord = getattr(node, "coord", None)
        file, line = (coord.file, coord.line) if coord else ("", 0)
        source = self.sources.get(file) or next(iter(self.sources.values()))
        raise self.located(source, line, message)

    def located(self, source: Source, line: int, message: str) -> ScalarSyntaxError:
        """An error at a line."""
        return source.error(line, f"{source.file}, line {line}: {message}. {ALLOWED}")

    # Names -------------------------------------------------------------------------

    def lookup(self, name: str) -> Variable | None:
        """The variable of that name, of the innermost scope."""
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return None

    def declare(self, name: str, dtype: np.dtype, kind: str = "value",
                shape: tuple[int, ...] = (), constant: bool = False) -> Variable:
        """A new variable of the innermost scope."""
        unique, count = name, 0
        while unique in self.taken:
            count += 1
            unique = f"{name}_{count}"
        self.taken.add(unique)
        variable = Variable(unique, dtype, kind, shape, constant)
        self.scopes[-1][name] = variable
        return variable

    def dtype(self, node: Any) -> np.dtype:
        """The dtype of a declared type."""
        inner = node
        while type(inner).__name__ in ("Typename", "TypeDecl", "ArrayDecl", "PtrDecl",
                                       "Decl"):
            inner = inner.type
        if type(inner).__name__ != "IdentifierType":
            self.refuse(node, "only arithmetic types are understood here")
        return self.type_named(node, spelled(inner.names) if len(inner.names) > 1
                               else inner.names[0])

    def type_named(self, node: Any, name: str) -> np.dtype:
        """The dtype that a type's name stands for."""
        found = self.types.get(name) or ALIASES.get(name)
        if found is None:
            self.refuse(node, f"the type {name!r} has no dtype")
        return found

    # Elements ----------------------------------------------------------------------

    def typed(self, node: Any) -> Typed:
        """The value of a C expression."""
        raise NotImplementedError

    def element(self, node: Any) -> Typed:
        """``x[i]``, or ``x.shape()[k]``."""
        base, indices = _unnested(node)
        if type(base).__name__ == "FuncCall":
            return self.extent(node, base, indices)
        variable, index = self.place(node)
        return Typed(subscript(variable.name, index, ast.Load()), variable.dtype)

    def place(self, node: Any) -> tuple[Variable, ast.expr]:
        """The array and the flat index of an element."""
        base, indices = _unnested(node)
        variable = self.lookup(getattr(base, "name", None) or "")
        if variable is None:
            self.refuse(node, f"{getattr(base, 'name', 'this')!r} is not declared")
        if variable.kind == "value":
            self.refuse(node, f"{base.name!r} is a number, it cannot be indexed; "
                              f"declare it as 'raw' to index it by hand")
        if variable.kind == "raw":
            return variable, self.raw_index(node, base.name, indices)
        if len(indices) != len(variable.shape):
            self.refuse(node, f"{base.name!r} has {len(variable.shape)} dimensions, "
                              f"got {len(indices)} indices")
        return variable, self.flat([self.typed(k) for k in indices],
                                   [constant(n) for n in variable.shape])

    def address(self, node: Any) -> tuple[Variable, ast.expr]:
        """The array and the index of ``&x[i]``."""
        if type(node).__name__ != "UnaryOp" or node.op != "&" \
                or type(node.expr).__name__ != "ArrayRef":
            self.refuse(node, "the address of an element of a raw array is expected "
                              "here, as in atomicAdd(&y[i], x)")
        variable, index = self.place(node.expr)
        if variable.kind != "raw":
            self.refuse(node, f"{variable.name!r} must be a raw array")
        return variable, index

    def raw_index(self, node: Any, name: str, indices: Sequence[Any]) -> ast.expr:
        """Of a raw array: its flat index in C order, or an array of indices."""
        if len(indices) > 1:
            self.refuse(node, f"{name!r} is indexed by one flat index in C order, or "
                              "by an array of indices")
        several = self.lookup(getattr(indices[0], "name", None) or "")
        if several is None or several.kind != "local":
            return self.flat([self.typed(indices[0])], [constant(1)])
        parts = [Typed(subscript(several.name, constant(k), ast.Load()), several.dtype)
                 for k in range(several.shape[0])]
        shape = [self.lookup(f"_{name}_shape{k}") for k in range(len(parts))]
        if None in shape or self.lookup(f"_{name}_shape{len(parts)}") is not None:
            self.refuse(node, f"{name!r} does not have {len(parts)} dimensions")
        return self.flat(parts, [ast.Name(s.name, ast.Load()) for s in shape if s])

    def flat(self, indices: Sequence[Typed], shape: Sequence[ast.expr]) -> ast.expr:
        """The index in C order."""
        if all(k.number is not None for k in indices) and all(
                isinstance(n, ast.Constant) for n in shape):
            total = 0
            for k, n in zip(indices, shape, strict=True):
                total = total * n.value + int(k.number.real)  # type: ignore[attr-defined, union-attr]
            return constant(total)
        found: ast.expr | None = None
        for k, n in zip(indices, shape, strict=True):
            index = converted(k, _INT64)
            found = index if found is None else ast.BinOp(
                ast.BinOp(found, ast.Mult(), n), ast.Add(), index)
        assert found is not None
        return found

    def extent(self, node: Any, base: Any, indices: Sequence[Any]) -> Typed:
        """``x.shape()[k]``."""
        target = base.name
        owner = getattr(getattr(target, "name", None), "name", "")
        field = getattr(getattr(target, "field", None), "name", "")
        axis = self.typed(indices[0]).number
        variable = self.lookup(f"_{owner}_{field}{axis}")
        if variable is None or len(indices) > 1:
            self.refuse(node, "only x.shape()[k] of a raw x with a known k is "
                              "understood here")
        return Typed(ast.Name(variable.name, ast.Load()), variable.dtype)


def _unnested(node: Any) -> tuple[Any, list[Any]]:
    """The array and the indices of ``x[i][j]``."""
    indices: list[Any] = []
    while type(node).__name__ == "ArrayRef":
        indices.insert(0, node.subscript)
        node = node.name
    return node, indices


ALLOWED = ("Understood are arithmetic, casts, comparisons, && || ! ?:, declarations, "
           "assignments, if, for, while, do, break, continue, return, small arrays, "
           "CUDA's math functions, raw arrays and __device__ functions; what else C++ "
           "has, a Python body or, on cuda, nf.RawKernel can do")
