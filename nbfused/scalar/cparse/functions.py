"""C functions as scalar functions, and calls of those that the preamble defines."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...support.records import record
from ..ir.nodes import Function
from ..parse.functions import parse_tree
from ..source.definitions import Source
from .expressions import as_type
from .scope import Scope
from .spelling import REFERENCE
from .structs import flat, leaf_names, nested
from .tree import kind, stores, walk
from .values import Typed, Variable, call, constant, converted, store, subscript

__all__ = ["DeviceCall", "Effects", "Parameter", "build_function",
           "declare_parameter", "device_function", "return_value"]


@record(frozen=True)
class Parameter:
    """A parameter of a C body.

    Attributes
    ----------
    dtype
        Of the value, or of the elements.
    raw
        Whether it is an array that the body indexes.
    written
        Whether the body may write to it: an output.
    """

    name: str
    dtype: np.dtype
    raw: bool = False
    written: bool = False


def declare_parameter(scope: Scope, p: Parameter) -> Variable:
    """Declare a parameter."""
    return scope.declare(p.name, p.dtype, "raw" if p.raw else "value",
                         constant=not p.written)


def build_function(scope: Scope, name: str, variables: Sequence[Variable], tree: Any,
                   last: list[ast.stmt], source: Source) -> Function:
    """The function of a body, by way of the scalar language; `last` ends it."""
    first = scope.unit.constants(scope, tree)
    with scope.block():
        body = [*first, *scope.statements(tree.body.block_items or ()), *last]
    return parse_tree(name, [v.name for v in variables], body, source,
                      scope.unit.outside)


def return_value(scope: Scope, node: Any, value: Typed,
                 dtype: np.dtype) -> list[ast.stmt]:
    """``return`` of a value, converted."""
    return [ast.Return(converted(as_type(scope, node, value, dtype), dtype))]


@record(frozen=True)
class Effects:
    """A call that stands for statements.

    Attributes
    ----------
    statements
        They run it, and store to the references that it takes.
    result
        A node of C that names what it returns.
    """

    statements: list[ast.stmt]
    result: Any


def device_function(scope: Scope, node: Any, name: str, args: Sequence[Any],
                    types: Sequence[np.dtype] = ()) -> DeviceCall | None:
    """A call of a function of the preamble; None if there is none of that name.

    `types` are template arguments that are given.
    """
    unit = scope.unit
    target = unit.functions.get(name)
    if target is None:
        return None
    declared = target.decl.type.args.params if target.decl.type.args else []
    declared = [d for d in declared if kind(d) != "Typename"]
    if len(declared) != len(args):
        scope.refuse(node, f"{name}() takes {len(declared)} arguments, got {len(args)}")
    if name in unit.open:
        scope.refuse(node, f"{name}() calls itself; use a loop")
    given = [_argument(scope, d, a) for d, a in zip(declared, args, strict=True)]
    return DeviceCall(scope, node, target, declared, given, args, types)


def _argument(scope: Scope, declared: Any, node: Any) -> Typed:
    """A value, or an array that a pointer takes."""
    if not _is_pointer(declared):
        return scope.value(node)
    variable = scope.lookup(getattr(node, "name", "")) if kind(node) == "ID" else None
    if variable is None or variable.kind == "value" or len(variable.shape) > 1:
        scope.refuse(node, f"the pointer {declared.name!r} takes a raw array, or an "
                           "array of one dimension, by its name")
    return Typed(ast.Name(variable.name, ast.Load()), variable.dtype)


def _is_pointer(declared: Any) -> bool:
    """True for ``T* p`` and ``T p[]``."""
    return kind(declared.type) in ("PtrDecl", "ArrayDecl")


def _listed(array: Variable, names: Sequence[str]) -> ast.stmt:
    """An array of a body gets its elements."""
    return ast.Assign([store(array.name)], call("list", ast.Tuple(
        [ast.Name(n, ast.Load()) for n in names], ast.Load())))


def _writable(scope: Scope, node: Any) -> bool:
    """True if an array may be written to."""
    variable = scope.lookup(node.name)
    return variable is not None and not variable.constant


class DeviceCall:
    """A call of a function of the preamble, for arguments of some dtypes.

    Attributes
    ----------
    params
        What the function takes: numbers, structs, raw arrays.
    references
        The positions of those that it changes.
    arrays
        The arrays of the caller's body by their positions: passed as their elements.
    changed
        The positions of those among them that it changes.
    result
        The dtype of what it returns; None for nothing.
    """

    def __init__(self, caller: Scope, node: Any, target: Any, declared: Sequence[Any],
                 given: Sequence[Typed], args: Sequence[Any],
                 types: Sequence[np.dtype]) -> None:
        self.unit, self.target, self.given, self.args = caller.unit, target, given, args
        self.name = target.decl.name
        self.source = self.unit.sources["preamble"]
        self.scope = Scope(caller.grammar, self.unit, self.source)
        self.scope.types = {**self.unit.types,
                            **self._deduced(caller, node, declared, types)}
        self.params = [
            Parameter(d.name, self.scope.dtype(d.type), _is_pointer(d),
                      not _is_pointer(d) or _writable(caller, a))
            for d, a in zip(declared, args, strict=True)]
        self.arrays = {k: v for k, a in enumerate(args) if self.params[k].raw
                       and (v := caller.lookup(a.name)) and v.kind == "local"}
        written = stores(target.body, self.unit.changes)
        self.changed = [k for k in self.arrays if self.params[k].name in written]
        self.references = [k for k, d in enumerate(declared) if REFERENCE in d.quals]
        returned = target.decl.type.type
        self.result = None if getattr(returned.type, "names", None) == ["void"] else \
            self.scope.dtype(returned)
        for p, value in zip(self.params, given, strict=True):
            if p.raw and p.dtype != value.dtype:
                caller.refuse(node, f"the pointer {p.name!r} of {self.name}() is of "
                                    f"{p.dtype}, got an array of {value.dtype}")

    @property
    def changes(self) -> bool:
        """Whether the call is more than a value."""
        return bool(self.references or self.changed) or self.result is None

    def _deduced(self, caller: Scope, node: Any, declared: Sequence[Any],
                 types: Sequence[np.dtype]) -> dict[str, np.dtype]:
        """The dtypes of a template's parameters."""
        names = self.unit.spelling.templates.get(self.name, ())
        if len(types) > len(names):
            caller.refuse(node, f"{self.name} takes {len(names)} template arguments, "
                                f"got {len(types)}")
        found = dict(zip(names, types, strict=False))
        for d, v in zip(declared, self.given, strict=True):
            inner = d.type
            while kind(inner) in ("PtrDecl", "ArrayDecl", "TypeDecl"):
                inner = inner.type
            name = getattr(inner, "names", [""])[0]
            if name not in names or name in names[:len(types)]:
                continue
            if found.setdefault(name, v.dtype) != v.dtype:
                caller.refuse(
                    node, f"{name} of {self.name}() is both {found[name]} and "
                          f"{v.dtype}; write {self.name}<T>(…), or cast")
        missing = [n for n in names if n not in found]
        if missing:
            caller.refuse(
                node, f"{missing[0]} of {self.name}() cannot be told from the "
                      f"arguments; write {self.name}<T>(…)")
        return found

    def call(self, scope: Scope, node: Any) -> ast.expr:
        """The call; the function is made when it is called first."""
        key = f"{self.name}<{', '.join(map(str, self._types()))}>"
        if f".{key}" not in self.unit.outside:
            self.unit.outside[f".{key}"] = self._function(key)
        nodes: list[ast.expr] = []
        for k, (p, v, a) in enumerate(zip(self.params, self.given, self.args,
                                          strict=True)):
            if k in self.arrays:
                nodes += [subscript(self.arrays[k].name, constant(j), ast.Load())
                          for j in range(self.arrays[k].shape[0])]
            if p.raw:
                nodes += [] if k in self.arrays else [v.node]
                continue
            if p.dtype.names and isinstance(v.node, ast.Call):
                scope.refuse(a, "a struct that a function returns is passed on by way "
                                "of a variable; declare one")
            nodes += flat(as_type(scope, node, v, p.dtype))
        return ast.Call(ast.Name(f".{key}", ast.Load()), nodes, [])

    def _types(self) -> list[Any]:
        return [*self.scope.types.items(), *((p.dtype, p.written) for p in self.params),
                *((k, v.shape) for k, v in self.arrays.items())]

    def value(self, scope: Scope, node: Any) -> Typed:
        """The value of a call that is a value."""
        if self.references or self.changed:
            scope.refuse(node, f"{self.name}() changes its arguments, and stands in no "
                               "expression; store its value first")
        if self.result is None:
            scope.refuse(node, f"{self.name}() returns nothing; call it in a statement "
                               "of its own")
        found = self.call(scope, node)
        if self.result.names is not None:
            if any(self.result[n].names for n in self.result.names):
                scope.refuse(node, f"{self.name}() returns a struct that holds a "
                                   "struct; return its members in one")
            if len(self.result.names) == 1:
                found = ast.Tuple([found], ast.Load())
        return Typed(found, self.result)

    def effects(self, scope: Scope, node: Any) -> Effects:
        """The statements of a call that changes its arguments."""
        from pycparser.c_ast import ID

        dtypes = [self.params[k].dtype for k in self.references]
        dtypes = [*([] if self.result is None else [self.result]), *dtypes]
        dtypes += [self.params[k].dtype for k in self.changed
                   for _ in range(self.arrays[k].shape[0])]
        if any(d.names for d in dtypes):
            scope.refuse(node, f"{self.name}() changes or returns a struct beside a "
                               "reference; return the struct alone")
        names = [f"__{self.name}_{k}" for k in range(len(dtypes))]
        found = [scope.declare(n, d) for n, d in zip(names, dtypes, strict=True)]
        taken = self.call(scope, node)
        if not found:
            return Effects([ast.Expr(taken)], None)
        targets: list[ast.expr] = [store(v.name) for v in found]
        target = ast.Tuple(targets, ast.Store()) if len(targets) > 1 else targets[0]
        statements: list[ast.stmt] = [ast.Assign([target], taken)]
        return Effects(statements + self._stored(scope, node, found), None
                       if self.result is None else ID(names[0], node.coord))

    def _stored(self, scope: Scope, node: Any,
                found: Sequence[Variable]) -> list[ast.stmt]:
        """The references get their new values."""
        from pycparser.c_ast import ID, Assignment

        statements: list[ast.stmt] = []
        seen: set[str] = set()
        found = list(found)
        first = int(self.result is not None)
        places = found[first:first + len(self.references)]
        rest = iter(found[first + len(self.references):])
        for k, v in zip(self.references, places, strict=True):
            target, given = self.args[k], self.given[k]
            name = getattr(target, "name", None)
            if kind(target) not in ("ID", "ArrayRef", "StructRef"):
                scope.refuse(node, f"the reference {self.params[k].name!r} takes a "
                                   "variable or an element")
            if given.dtype != v.dtype:
                scope.refuse(node, f"the reference {self.params[k].name!r} is of "
                                   f"{v.dtype}, got {given.dtype}")
            if isinstance(name, str) and name in seen:
                scope.refuse(node, f"{name!r} is given twice by reference; give a copy")
            seen.add(str(name))
            value = ID(f"__{self.name}_{found.index(v)}", node.coord)
            statements += scope.statement(Assignment("=", target, value, node.coord))
        for array in (self.arrays[k] for k in self.changed):
            if array.name in seen:
                scope.refuse(node, f"{array.name!r} is given twice; give a copy")
            seen.add(array.name)
            statements.append(_listed(array, [
                next(rest).name for _ in range(array.shape[0])]))
        return statements

    def _function(self, name: str) -> Function:
        """The scalar function, copied in where it is called."""
        scope = self.scope
        names: list[str] = []
        first: list[ast.stmt] = []
        self.unit.outside[".list"] = list
        first += self.unit.constants(scope, self.target)
        for k, p in enumerate(self.params):  # by value: a copy that may change
            if k in self.arrays:
                variable = scope.declare(p.name, p.dtype, "local",
                                         self.arrays[k].shape, not p.written)
                parts = [scope.declare(f"__{p.name}_{j}", p.dtype).name
                         for j in range(variable.shape[0])]
                names += parts
                first.append(_listed(variable, parts))
                continue
            variable = declare_parameter(scope, p)
            parts = leaf_names(scope, variable)
            names += parts
            if p.dtype.names:
                first.append(ast.Assign([store(variable.name)], nested(
                    p.dtype, iter(parts))))
        returns = [n for n in walk(self.target.body) if kind(n) == "Return"]
        if (not returns and self.result is not None) or any(
                (n.expr is None) != (self.result is None) for n in returns):
            self.unit.refuse(self.target, f"{self.name}() returns a value, or is void "
                                          "and returns nothing")
        changed = [scope.lookup(self.params[k].name)
                   for k in (*self.references, *self.changed)]
        scope.leave = lambda node: self._leave(node, [v for v in changed if v])
        last = scope.leave(None) if self.result is None else []
        self.unit.open.append(self.name)
        try:
            with scope.block():
                body = scope.statements(self.target.body.block_items or ())
            return parse_tree(name, names, [*first, *body, *last] or [ast.Pass()],
                              self.source, self.unit.outside)
        finally:
            self.unit.open.pop()

    def _leave(self, node: Any, changed: Sequence[Variable]) -> list[ast.stmt]:
        """``return``: the value, then what the references hold."""
        found: list[ast.expr] = []
        if self.result is not None:
            value = as_type(self.scope, node, self.scope.value(node.expr), self.result)
            if value.dtype.names and isinstance(value.node, ast.Call):
                return [ast.Return(value.node)]  # the parts as a function gave them
            found = flat(value)
        for v in changed:
            found += [ast.Name(v.name, ast.Load())] if v.kind != "local" else [
                subscript(v.name, constant(j), ast.Load()) for j in range(v.shape[0])]
        if len(found) > 1:
            return [ast.Return(ast.Tuple(found, ast.Load()))]
        return [ast.Return(found[0] if found else None)]
