"""The text of one kernel and its preamble: reading it, its types, errors in it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from typing import Any, NoReturn

import numpy as np

from ...errors import ScalarSyntaxError
from ...support.dtypes import DTYPES
from ..parse.elements import MOST_ELEMENTS
from ..source.definitions import Source
from ..source.resolve import Operation
from .cuda.functions import ATOMICS
from .cuda.texts import CUDA_FUNCTIONS, CUDA_TEXT, vector_types
from .spelling import CUDA, METHOD, OPERATOR, REFERENCE, Spelling, plain_name, respell
from .tree import kind, name_members, owner_of, stores, walk
from .types import ALIASES, array_dtype, struct_dtype, struct_name, type_name, type_text

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
#: By the name of ``P<T>`` in C++, which the dtype of one has, the struct and its types.
_INSTANCES: dict[str, tuple[str, tuple[np.dtype, ...]]] = {}


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
    templates
        The parameters of those that are templates, as in `Spelling.templates`.
    settled
        The parameters that are references and do not change.
    structs
        The structs of the preamble by their names.
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
        self.templates: dict[Any, Mapping[str, str | None]] = {}
        self.settled: set[Any] = set()
        self.structs: dict[str, Any] = {}
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
        apart = [(c.text, *c.source) for c in self.spelling.captures.values()]
        apart += [(h.text, h.source, h.line) for h in self.spelling.hoisted]
        outside += "".join(f'#line {line} "{files[id(source)]}"\n{found}\n'
                           for found, source, line in apart)
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
                self._keep_struct(node.type)
            elif kind(node) == "Decl" and kind(node.type) != "FuncDecl":
                self._keep_constant(node)
        self._settle_references()
        return self.functions.pop(KERNEL)[0]

    def _keep_function(self, node: Any) -> None:
        """Keep a function; those of one name differ in what they take."""
        params = self.spelling.templates.get(node.decl.name)
        if params is not None:
            self.templates[node] = params
        node.decl.name = plain_name(node.decl.name)
        self.functions.setdefault(node.decl.name, []).append(node)

    def _keep_struct(self, node: Any) -> None:
        """Keep a struct, or a template of one."""
        self.structs[node.name] = node
        if not self.spelling.structs[node.name].params:
            self.types[node.name] = self.dtype(node, self.types)

    def _settle_references(self) -> None:
        """Make values of the references that their functions do not change.

        The members of structs are told from variables in their functions first.
        """
        found = [f for functions in self.functions.values() for f in functions]
        for node in (n for f in found for n in walk(f.body)):
            if kind(node) == "Struct" and node.decls and getattr(
                    self.spelling.structs.get(node.name), "functions", False):
                self._keep_struct(node)  # of a body, whose functions stand beside it
        for function in found:
            own = owner_of(function, self.spelling)
            if own in self.structs:
                name_members(function, {m.name for m in self.structs[own].decls},
                             self.spelling.structs[own].methods)
        references = [(f, d) for f in found if f.decl.type.args is not None
                 for d in f.decl.type.args.params if REFERENCE in d.quals]
        while True:  # what one function does not change, its callers may not change
            settled = [d for f, d in references
                       if d not in self.settled and ("const" in d.quals or
                       d.name not in stores(f.body, self.changes))]
            if not settled:
                return
            self.settled.update(settled)
            for d in settled:
                d.quals.remove(REFERENCE)

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
        args = list(node.args.exprs) if node.args is not None else []
        name = str(getattr(node.name, "name", ""))
        if kind(node.name) == "StructRef":
            name, args = METHOD + node.name.field.name, [node.name.name, *args]
        if name == "memcpy":
            return args[:1]
        if name in self.spelling.lambdas:
            return self._changes_around(self.spelling.lambdas[name])
        name, given = self.spelling.explicit.get(name, (name, ()))
        targets = self.functions.get(name) or self.functions.get(CUDA + name)
        if targets is None and kind(node.name) == "ID":  # perhaps of a struct
            targets, args = self.functions.get(f"{OPERATOR}call"), [node.name, *args]
        return [a for target in targets or () if target.decl.type.args is not None
                for a, d in zip(args[given.count(None):],
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
        if kind(inner) == "Struct" and (inner.decls or inner.name in self.structs):
            return self._struct(inner, types, source)
        if kind(inner) != "IdentifierType":
            self.refuse(node, "only arithmetic types and structs of these are "
                              "understood here", source)
        name = type_name(inner.names) if len(inner.names) > 1 else inner.names[0]
        return self.named_dtype(node, name, types, source)

    def _struct(self, node: Any, types: Mapping[str, np.dtype],
                source: Source | None, name: str = "") -> np.dtype:
        """The dtype of a struct: its members by their names."""
        for m in node.decls or ():
            if kind(m) != "Decl" or kind(m.type) not in ("TypeDecl", "ArrayDecl"):
                self.refuse(m, "the members of a struct are numbers, structs and arrays"
                               " of these, and no pointers; pass a pointer to the "
                               "function that reads from it", source)
        if not node.decls:
            self.refuse(node, f"the struct {node.name} has no member that is a number; "
                              "write its functions as functions of their own", source)
        return struct_dtype(name or node.name or "", [
            (m.name, self._member(m, m.type, self.dtype(m, types, source)))
            for m in node.decls])

    def _member(self, node: Any, type_: Any, dtype: np.dtype) -> np.dtype:
        """The dtype of a member, which may be an array."""
        if kind(type_) != "ArrayDecl":
            return dtype
        size = type_.dim
        if kind(size) == "ID" and size.name in self.globals:
            size = self.globals[size.name].init
        if kind(size) != "Constant" or not size.value.isdigit() or \
                not 0 < int(size.value) <= MOST_ELEMENTS:
            self.refuse(node, f"the size of the member {node.name!r} must be a number "
                              f"from 1 to {MOST_ELEMENTS} that is written here")
        return array_dtype(self._member(node, type_.type, dtype), int(size.value))

    def instance(self, node: Any, name: str, given: Sequence[np.dtype],
                 source: Source | None = None) -> np.dtype:
        """The dtype that the template of a struct is for some types."""
        if name not in self.structs:
            self.refuse(node, f"the struct {name} is not defined", source)
        shown = f"{name}<{', '.join(map(type_text, given))}>"
        params = self.spelling.structs[name].params
        found = self._struct(self.structs[name], {
            **self.types, **dict(zip(params, given, strict=True))}, source, shown)
        _INSTANCES[shown] = name, tuple(given)
        return found

    def struct_of(self, dtype: np.dtype) -> tuple[str, tuple[np.dtype, ...]]:
        """The struct that a dtype is of, and the types for its template."""
        name = struct_name(dtype)
        return _INSTANCES.get(name, (name, ()))

    def named_dtype(self, node: Any, name: str, types: Mapping[str, np.dtype],
                    source: Source | None = None) -> np.dtype:
        """The dtype that a type's name stands for."""
        if name in self.spelling.conditional:
            same, other, then, orelse = self.spelling.conditional[name]
            equal = self.named_dtype(node, same, types, source) == self.named_dtype(
                node, other, types, source)
            return self.named_dtype(node, then if equal else orelse, types, source)
        if name in self.spelling.instances:
            struct, names = self.spelling.instances[name]
            return self.instance(node, struct, [
                self.named_dtype(node, n, types, source) for n in names], source)
        found = types.get(name) or ALIASES.get(name)
        if found is None:
            self.refuse(node, f"the type {name!r} has no dtype", source)
        return found


def _names(node: Any) -> set[str]:
    """The names that a tree reads or assigns."""
    return {n.name for n in walk(node) if kind(n) == "ID"}
