"""The text of one kernel and its preamble: reading it, its types, errors in it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from typing import Any, NoReturn

import numpy as np

from ...errors import ScalarSyntaxError
from ...support.dtypes import DTYPES
from ..source.definitions import Source
from ..source.resolve import Operation
from .cuda.functions import ATOMICS
from .cuda.texts import CUDA_FUNCTIONS, CUDA_TEXT, vector_types
from .spelling import CUDA, REFERENCE, Spelling, respell
from .tree import kind, stores, walk
from .types import ALIASES, type_name

__all__ = ["Unit"]

#: The function that the body of a kernel stands in.
KERNEL = "__kernel"

#: The end of every message.
ALLOWED = ("Understood are arithmetic, casts, comparisons, && || ! ?:, declarations, "
           "assignments, if, switch, for, while, do, break, continue, return, structs, "
           "small arrays, pointers, lambdas, macros, CUDA's math functions, printf, "
           "raw arrays, __device__ functions and their templates; what else C++ "
           "has, a Python body or, on cuda, nf.RawKernel can do")

_DECLARATIONS = ("Typename", "TypeDecl", "ArrayDecl", "PtrDecl", "Decl")


class Unit:
    """One kernel and the functions of its preamble.

    The names of its `params` hide types of these names, such as ``half``.

    Attributes
    ----------
    types
        What the names of types stand for.
    outside
        What the names of functions stand for; filled on the way.
    sources
        Text by the name of the file that pycparser is given.
    functions
        The functions of the preamble by their names; some have one name.
    globals
        The constants of the preamble.
    lambdas
        The lambdas by the names of their variables in the Python tree.
    open
        The functions that are being translated, callers first.
    """

    def __init__(self, name: str, types: dict[str, np.dtype], preamble: str,
                 params: Set[str] = frozenset()) -> None:
        self.name, self.types, self.params = name, types, params
        self.outside: dict[str, Any] = {f".{d}": Operation("cast", d) for d in DTYPES}
        self.sources = {"preamble": Source(f"<preamble of {name}>", preamble)}
        self.spelling = Spelling()
        self.spelling.types |= set(types)
        self.functions: dict[str, list[Any]] = {}
        self.globals: dict[str, Any] = {}
        self.lambdas: dict[str, Any] = {}
        self.open: list[Any] = []

    def read(self, body: str, before: str, after: str, first: str = "") -> Any:
        """The definition of the kernel that `body` stands in, `first` around that."""
        self.sources["body"] = Source(f"<body of {self.name}>", body)
        vectors = Source("<vectors of CUDA>", vector_types(
            body + first + self.sources["preamble"].text))
        texts = {"vectors": respell(self.spelling, vectors, False)} if vectors.text \
            else {}
        self.sources["vectors"] = vectors
        texts["preamble"] = respell(self.spelling, self.sources["preamble"], False)
        if CUDA_FUNCTIONS.search(body + texts["preamble"]):
            self.sources["cuda"] = Source("<functions of CUDA>", CUDA_TEXT)
            cuda = respell(self.spelling, self.sources["cuda"], False)
            texts = {"cuda": cuda, **texts}
        self.spelling.types -= self.params
        if first:
            self.sources["loop_prep"] = Source(f"<loop_prep of {self.name}>", first)
            before += (f'\n#line 1 "loop_prep"\n'
                       f'{respell(self.spelling, self.sources["loop_prep"])};\n'
                       '#line 0 "body"\n{')
            after += "}"
        respelled = respell(self.spelling, self.sources["body"])
        outside = "".join(f'#line 1 "{name}"\n{t}\n' for name, t in texts.items())
        files = {id(s): name for name, s in self.sources.items()}
        outside += "".join(
            f'#line {c.source[1]} "{files[id(c.source[0])]}"\n{c.text}\n'
            for c in self.spelling.captures.values())
        words = re.findall(r"\w+", outside + before + respelled)
        named = sorted(self.spelling.types.intersection(words))
        typedefs = "".join(f"typedef int {t}; " for t in named)
        tree = self._parse(f'{typedefs}\n{outside}#line 0 "body"\n{before}\n{respelled}'
                           f'{after}')
        for node in tree.ext:
            if kind(node) == "FuncDef":
                self._keep_function(node)
            elif kind(node) != "Typedef" and kind(node) != "Decl":
                self.refuse(node, "the preamble holds functions and macros")
            elif kind(node) == "Typedef" and node.coord.file == "preamble":
                self.types[node.name] = self.dtype(node.type, self.types)
            elif kind(node) == "Decl" and kind(node.type) == "Struct":
                self.types[node.type.name] = self.dtype(node.type, self.types)
            elif kind(node) == "Decl" and kind(node.type) != "FuncDecl":
                self._keep_constant(node)
        return self.functions.pop(KERNEL)[0]

    def _keep_function(self, node: Any) -> None:
        """Keep a function; those of one name differ in what they take."""
        name = node.decl.name
        if name in self.functions and name in self.spelling.templates:
            self.refuse(node, f"{name}() is defined twice, once as a template; give "
                              "one of them another name, or choose by if constexpr "
                              "(std::is_same<T, float>::value)")
        self.functions.setdefault(name, []).append(node)

    def _keep_constant(self, node: Any) -> None:
        """Keep a constant of the preamble for the functions that name it."""
        if node.init is None:
            self.refuse(node, f"the variable {node.name!r} of the preamble is no "
                              "constant; give it a value, or pass it as an argument")
        node.quals = [*node.quals, "const"]  # nobody outside could set it
        self.globals[node.name] = node

    def constants(self, scope: Any, function: Any) -> list[Any]:
        """The statements that declare what a function names of the preamble."""
        named = _names(function.body)
        for name, node in reversed(self.globals.items()):
            named |= _names(node) if name in named else set()
        with scope.outside():
            return [s for name, node in self.globals.items() if name in named
                    for s in scope.statement(node)]

    def expression(self, text: str) -> Any:
        """The definition of a kernel that returns an expression, and does no more."""
        tree = self.read(text, f"void {KERNEL}(void) {{ return", ";\n}")
        for node in tree.body.block_items[1:]:
            if kind(node) != "EmptyStatement":
                self.refuse(node, "one expression stands here, and statements after it "
                                  "would be left out")
        return tree

    def _parse(self, text: str) -> Any:
        """The syntax tree; an error names the line of the body."""
        from pycparser import c_parser

        try:
            return c_parser.CParser().parse(text, "body")
        except c_parser.ParseError as error:
            where, _, message = str(error).partition(": ")
            file, _, rest = where.partition(":")
            line = rest.partition(":")[0]
            raise self._parse_error(file, line, message.strip() or "cannot be parsed"
                                    ) from None

    def _parse_error(self, file: str, line: str, message: str) -> ScalarSyntaxError:
        """An error of pycparser's, at its place."""
        source = self.sources.get(file, self.sources["body"])
        number = int(line) if line.isdigit() else len(source.text.splitlines())
        found = message.removeprefix("before: ")
        what = f"unexpected {found!r}" if message.startswith("before: ") else message
        number = min(max(number, 1), max(len(source.text.splitlines()), 1))
        return self.error(source, number, f"cannot be read as C: {what}")

    def changes(self, node: Any) -> list[Any]:
        """The arguments that a call may write to: references, pointers not to const."""
        name = str(getattr(node.name, "name", ""))
        if name in self.spelling.lambdas:
            return self._changes_around(self.spelling.lambdas[name])
        name, given = self.spelling.explicit.get(name, (name, ()))
        targets = self.functions.get(name) or self.functions.get(CUDA + name) or []
        if node.args is None:
            return []
        return [a for target in targets if target.decl.type.args is not None
                for a, d in zip(node.args.exprs[given.count(None):],
                                target.decl.type.args.params, strict=False)
                if REFERENCE in d.quals or (kind(d.type) in ("PtrDecl", "ArrayDecl")
                                            and "const" not in d.type.type.quals)]

    def _changes_around(self, keys: Sequence[str]) -> list[Any]:
        """The variables that lambdas may change, and the arrays of their atomics."""
        from pycparser.c_ast import ID

        found: set[str] = set()
        for body in (self.functions[key][0].body for key in keys):
            found |= stores(body, self.changes)
            for n in walk(body):
                if kind(n) == "FuncCall" and getattr(n.name, "name", "") in ATOMICS:
                    found |= _names(n)
        return [ID(name) for name in sorted(found)]

    # Errors ------------------------------------------------------------------------

    def refuse(self, node: Any, message: str, source: Source | None = None) -> NoReturn:
        """Raise a `ScalarSyntaxError` at a node; in `source` if that has no place."""
        coord = getattr(node, "coord", None)
        file, line = (coord.file, coord.line) if coord else ("", 0)
        source = self.sources.get(file) or source or self.sources["body"]
        raise self.error(source, line, message)

    def error(self, source: Source, line: int, message: str) -> ScalarSyntaxError:
        """An error at a line."""
        return source.error(line, f"{source.file}, line {line}: {message}. {ALLOWED}")

    # Types -------------------------------------------------------------------------

    def dtype(self, node: Any, types: Mapping[str, np.dtype],
              source: Source | None = None) -> np.dtype:
        """The dtype of a declared type."""
        inner = node
        while kind(inner) in _DECLARATIONS:
            inner = inner.type
        if kind(inner) == "Struct" and inner.decls:
            return self._struct(inner, types, source)
        if kind(inner) != "IdentifierType":
            self.refuse(node, "only arithmetic types and structs of these are "
                              "understood here", source)
        name = type_name(inner.names) if len(inner.names) > 1 else inner.names[0]
        return self.named_dtype(node, name, types, source)

    def _struct(self, node: Any, types: Mapping[str, np.dtype],
                source: Source | None) -> np.dtype:
        """The dtype of a struct: its members by their names."""
        for m in node.decls:
            if kind(m) != "Decl" or kind(m.type) != "TypeDecl" or m.init is not None:
                self.refuse(m, "the members of a struct are numbers and structs, "
                               "without arrays, pointers and initial values", source)
        return np.dtype([(m.name, self.dtype(m, types, source)) for m in node.decls],
                        align=True)

    def named_dtype(self, node: Any, name: str, types: Mapping[str, np.dtype],
                    source: Source | None = None) -> np.dtype:
        """The dtype that a type's name stands for."""
        if name in self.spelling.conditional:
            same, other, then, orelse = self.spelling.conditional[name]
            equal = self.named_dtype(node, same, types, source) == self.named_dtype(
                node, other, types, source)
            return self.named_dtype(node, then if equal else orelse, types, source)
        found = types.get(name) or ALIASES.get(name)
        if found is None:
            self.refuse(node, f"the type {name!r} has no dtype", source)
        return found


def _names(node: Any) -> set[str]:
    """The names that a tree reads or assigns."""
    return {n.name for n in walk(node) if kind(n) == "ID"}
