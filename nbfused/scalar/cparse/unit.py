"""Kernels written in C, as scalar functions: `parse_c` and `parse_c_expression`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np

from ...errors import ScalarSyntaxError
from ...records import record
from ..ir import Function
from ..room import TOO_DEEP, room
from ..source import Source
from ..tree import parse_tree
from .loops import kind, stores, walk
from .statements import Statements
from .text import Spelling
from .values import Typed, Variable, converted

__all__ = ["Parameter", "number_of", "parse_c", "parse_c_expression", "type_of"]


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


@lru_cache(maxsize=1024)
def parse_c(body: str, name: str, params: tuple[Parameter, ...],
            types: tuple[tuple[str, np.dtype], ...] = (),
            preamble: str = "") -> Function:
    """The scalar function of the statements of a kernel.

    Parameters
    ----------
    body : str
        Statements in C; a last semicolon may be missing.
    name : str
        Of the kernel.
    params : tuple of Parameter
        All that the body can name.  Methods are named by an underscore, the owner and
        the method: ``_x_size`` is ``x.size()``, ``_x_shape0`` is ``x.shape()[0]``.
    types : tuple of (str, dtype)
        What further names of types stand for: the placeholders.
    preamble : str
        Functions and macros.

    Returns
    -------
    Function
        Of all `params`.  Its results are the values of those that are written and not
        raw, which begin with the values given.

    Raises
    ------
    ScalarSyntaxError
        C that is not understood, with the line.
    """
    unit = Unit(name, dict(types), preamble, {p.name for p in params})
    with _deep(unit):
        tree = unit.read(body, f"void {_KERNEL}(void) {{", ";\n}")
        return unit.kernel(tree, params)


@lru_cache(maxsize=1024)
def parse_c_expression(text: str, name: str, params: tuple[Parameter, ...],
                       result: np.dtype,
                       types: tuple[tuple[str, np.dtype], ...] = (),
                       preamble: str = "") -> Function:
    """The scalar function of an expression, converted to the dtype `result`."""
    unit = Unit(name, dict(types), preamble, {p.name for p in params})
    with _deep(unit):
        return unit.kernel(unit.expression(text), params, result)


@contextmanager
def _deep(unit: Unit) -> Iterator[None]:
    """While a body is read, which may be generated."""
    with room():
        try:
            yield
        except RecursionError:
            raise ScalarSyntaxError(f"{unit.name}: the body or its preamble is "
                                    f"{TOO_DEEP}") from None


def number_of(text: str, name: str, dtype: np.dtype, types: tuple[
        tuple[str, np.dtype], ...] = (), preamble: str = "") -> Any:
    """The number that a constant expression is, None if it is not known now."""
    unit = Unit(name, dict(types), preamble)
    statement = unit.expression(text).body.block_items[0]
    value = unit.translator(Source("", "")).typed(statement.expr)
    if value.number is None:
        return None
    return np.asarray(value.number).astype(dtype)[()]


def type_of(text: str, name: str, types: tuple[tuple[str, np.dtype], ...]) -> np.dtype:
    """The dtype that a type is."""
    unit = Unit(name, dict(types), "")
    tree = unit.expression(f"({text})0")
    return unit.translator(unit.sources["body"]).typed(
        tree.body.block_items[0].expr).dtype


_KERNEL = "__kernel"


class Unit:
    """One kernel and the functions of its preamble.

    The names of its `params` hide types of these names, such as ``half``.
    """

    def __init__(self, name: str, types: dict[str, np.dtype], preamble: str,
                 params: Set[str] = frozenset()) -> None:
        self.name, self.types, self.params = name, types, params
        self.outside: dict[str, Any] = {}
        self.sources = {"preamble": Source(f"<preamble of {name}>", preamble)}
        self.spelling = Spelling()
        self.spelling.types |= set(types)
        self.functions: dict[str, Any] = {}
        self.open: list[str] = []

    def read(self, body: str, before: str, after: str) -> Any:
        """The definition of the kernel that `body` stands in."""
        self.sources["body"] = Source(f"<body of {self.name}>", body)
        preamble = self.spelling.respell(self.sources["preamble"])
        self.spelling.types -= self.params
        respelled = self.spelling.respell(self.sources["body"])
        words = re.findall(r"\w+", preamble + respelled)
        named = sorted(self.spelling.types.intersection(words))
        typedefs = "".join(f"typedef int {t}; " for t in named)
        text = (f'{typedefs}\n#line 1 "preamble"\n{preamble}\n#line 0 "body"\n{before}'
                f'\n{respelled}{after}')
        tree = self.parsed(text)
        for node in tree.ext:
            if kind(node) == "FuncDef":
                self.functions[node.decl.name] = node
            elif kind(node) != "Typedef" and kind(node) != "Decl":
                raise self.at(node.coord, "the preamble holds functions and macros")
            elif kind(node) == "Typedef" and node.coord.file == "preamble":
                self.types[node.name] = self.translator(
                    self.sources["preamble"]).dtype(node.type)
            elif kind(node) == "Decl" and kind(node.type) != "FuncDecl":
                raise self.at(node.coord, "a variable of the preamble is not "
                              "understood here; use #define, or pass it as an argument")
        return self.functions.pop(_KERNEL)

    def expression(self, text: str) -> Any:
        """The definition of a kernel that returns an expression, and does no more."""
        tree = self.read(text, f"void {_KERNEL}(void) {{ return", ";\n}")
        for node in tree.body.block_items[1:]:
            if kind(node) != "EmptyStatement":
                raise self.at(node.coord, "one expression stands here, and statements "
                                          "after it would be left out")
        return tree

    def parsed(self, text: str) -> Any:
        """The syntax tree; an error names the line of the body."""
        from pycparser import c_parser

        try:
            return c_parser.CParser().parse(text, "body")
        except c_parser.ParseError as error:
            where, _, message = str(error).partition(": ")
            file, _, line = where.rpartition(":")[0].partition(":")
            raise self.refusal(file, line, message.strip() or "cannot be parsed"
                               ) from None

    def refusal(self, file: str, line: str, message: str) -> ScalarSyntaxError:
        """An error of pycparser's, at its place."""
        source = self.sources.get(file, self.sources["body"])
        number = int(line) if line.isdigit() else len(source.text.splitlines())
        found = message.removeprefix("before: ")
        what = f"unexpected {found!r}" if message.startswith("before: ") else message
        number = min(max(number, 1), max(len(source.text.splitlines()), 1))
        return self.translator(source).located(source, number, f"cannot be read as C: "
                                                               f"{what}")

    def at(self, coord: Any, message: str) -> ScalarSyntaxError:
        """An error at a coordinate."""
        source = self.sources.get(coord.file, self.sources["body"])
        return self.translator(source).located(source, coord.line, message)

    def translator(self, source: Source) -> Translator:
        """A translator of one function."""
        return Translator(self, {"": source, **self.sources})

    def kernel(self, tree: Any, params: Sequence[Parameter],
               result: np.dtype | None = None) -> Function:
        """The kernel's function: its outputs, or the expression that it returns."""
        translator = self.translator(self.sources["body"])
        variables = [translator.parameter(p) for p in params]
        outs = [v for v, p in zip(variables, params, strict=True)
                if p.written and not p.raw]
        if result is not None:
            translator.leave = lambda node: translator.give(
                node, [(translator.typed(node.expr), result)])
        else:
            translator.leave = lambda node: translator.stop(node, outs)
        found = self.function(translator, self.name, variables, tree, _results(outs),
                              self.sources["body"])
        missing = outs and {v.name for v in outs} - stores(tree.body)
        if missing and result is None:
            raise translator.located(
                self.sources["body"], 1, f"the output {min(missing)!r} is never "
                f"assigned; write {min(missing)} = …")
        return found

    def function(self, translator: Translator, name: str,
                 variables: Sequence[Variable], tree: Any, last: list[ast.stmt],
                 source: Source) -> Function:
        """The function of a body, by way of the scalar language."""
        with translator.scope():
            body = [*translator.block(tree.body.block_items or ()), *last]
        return parse_tree(name, [v.name for v in variables], body, source, self.outside)


def _results(outs: Sequence[Variable]) -> list[ast.stmt]:
    return [ast.Return(ast.Tuple([ast.Name(v.name, ast.Load()) for v in outs],
                                 ast.Load()))]


class Translator(Statements):
    """Statements of one function that knows the others of its unit."""

    def __init__(self, unit: Unit, sources: Mapping[str, Source]) -> None:
        super().__init__(sources, unit.types, unit.outside)
        self.unit = unit

    def parameter(self, p: Parameter) -> Variable:
        """Declare a parameter."""
        return self.declare(p.name, p.dtype, "raw" if p.raw else "value",
                            constant=not p.written)

    def stop(self, node: Any, outs: Sequence[Variable]) -> list[ast.stmt]:
        """``return`` of a kernel, or ``continue``: the outputs are as they are."""
        if getattr(node, "expr", None) is not None:
            self.refuse(node, "return gives no value here; assign it to an output")
        return _results(outs)

    def give(self, node: Any, values: Sequence[tuple[Typed, np.dtype]]
             ) -> list[ast.stmt]:
        """``return`` of values, converted."""
        found = [converted(self.as_type(node, v, d), d) for v, d in values]
        return [ast.Return(found[0])]

    def device_function(self, node: Any, name: str,
                        args: Sequence[Any]) -> Typed | None:
        """A call of a function of the preamble; None if there is none."""
        target = self.unit.functions.get(name)
        if target is None:
            return None
        declared = target.decl.type.args.params if target.decl.type.args else []
        declared = [d for d in declared if kind(d) != "Typename"]
        if len(declared) != len(args):
            self.refuse(node, f"{name}() takes {len(declared)} arguments, got "
                              f"{len(args)}")
        if name in self.unit.open:
            self.refuse(node, f"{name}() calls itself; use a loop")
        given = [self.argument(d, a) for d, a in zip(declared, args, strict=True)]
        callee = Instance(self.unit, target, declared, [v.dtype for v in given])
        key = f"{name}<{', '.join(str(v.dtype) for v in given)}>"
        if f".{key}" not in self.outside:
            self.outside[f".{key}"] = callee.function(key)
        nodes = [v.node if p.raw else converted(v, p.dtype)
                 for v, p in zip(given, callee.params, strict=True)]
        call = ast.Call(ast.Name(f".{key}", ast.Load()), nodes, [])
        return Typed(call, callee.result)

    def argument(self, declared: Any, node: Any) -> Typed:
        """A value, or a raw array that a pointer takes."""
        if kind(declared.type) != "PtrDecl":
            return self.typed(node)
        variable = self.lookup(getattr(node, "name", "")) if kind(node) == "ID" else \
            None
        if variable is None or variable.kind != "raw":
            self.refuse(node, f"the pointer {declared.name!r} takes a raw array by its "
                              "name")
        return Typed(ast.Name(variable.name, ast.Load()), variable.dtype)


class Instance:
    """A function of the preamble for arguments of some dtypes."""

    def __init__(self, unit: Unit, target: Any, declared: Sequence[Any],
                 dtypes: Sequence[np.dtype]) -> None:
        self.unit, self.target = unit, target
        self.translator = unit.translator(unit.sources["preamble"])
        self.translator.types = {**unit.types, **self.deduced(declared, dtypes)}
        self.params = [Parameter(d.name, self.translator.dtype(d.type),
                                 kind(d.type) == "PtrDecl") for d in declared]
        returned = target.decl.type.type
        if getattr(returned.type, "names", None) == ["void"]:
            raise unit.at(target.coord, "a function of the preamble returns a value")
        self.result = self.translator.dtype(returned)

    def deduced(self, declared: Sequence[Any],
                dtypes: Sequence[np.dtype]) -> dict[str, np.dtype]:
        """What the parameters of a template stand for."""
        found: dict[str, np.dtype] = {}
        for d, dtype in zip(declared, dtypes, strict=True):
            inner = d.type
            while kind(inner) in ("PtrDecl", "TypeDecl"):
                inner = inner.type
            name = getattr(inner, "names", [""])[0]
            if name in self.unit.spelling.templates:
                found.setdefault(name, dtype)
        return found

    def function(self, name: str) -> Function:
        """Its scalar function, copied in where it is called."""
        translator, unit = self.translator, self.unit
        # By value: a copy that the function may change.
        variables = [translator.parameter(Parameter(p.name, p.dtype, p.raw, not p.raw))
                     for p in self.params]
        returns = [n for n in walk(self.target.body) if kind(n) == "Return"]
        if not returns or any(n.expr is None for n in returns):
            raise unit.at(self.target.coord, "a function of the preamble returns a "
                                             "value")
        translator.leave = lambda node: translator.give(
            node, [(translator.typed(node.expr), self.result)])
        unit.open.append(self.target.decl.name)
        try:
            return unit.function(translator, name, variables, self.target, [],
                                 unit.sources["preamble"])
        finally:
            unit.open.pop()


