"""From CUDA C++ spelling to the C that pycparser reads, line by line.

What C++ adds to expressions and declarations is respelled: ``T(x)`` and
``static_cast<T>(x)`` become calls of ``__cast_T``, every fundamental type its dtype's
name, qualifiers go.  Line numbers stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field

from ...support.records import record
from ..source.definitions import Source
from .types import ALIASES, WORDS, type_name

__all__ = ["AUTO", "CAST", "LIMIT", "Spelling"]

#: The prefix of the call that a cast is respelled as, the same of numeric limits, and
#: the type of ``auto x = …``.
CAST, LIMIT, AUTO = "__cast_", "__limit_", "__auto"

_QUOTED = r"""(?P<string>"(\\.|[^"\\\n])*" | '(\\[^'\n]+|\\'|[^'\\\n])')"""
_COMMENT = re.compile(_QUOTED + r"| //[^\n]* | /\*.*?\*/", re.VERBOSE | re.DOTALL)
_TOKEN = re.compile(_QUOTED + r"""
    | (?P<space>\s+)
    | (?P<word>[A-Za-z_]\w*) | (?P<number>\.?\d([eEpP][+-]|[\w.])*)
    | (?P<mark>::|<<=|>>=|[-+*/%&|^<>=!]=|&&|\|\||\+\+|--|->|<<|.)
    """, re.VERBOSE | re.DOTALL)

_DROPPED = frozenset({
    "__device__", "__host__", "__forceinline__", "inline", "__inline__", "static",
    "__noinline__", "__restrict__", "constexpr", "typename", "volatile", "register",
})
_NAMESPACES = frozenset({"std", "thrust", "cupy", "cuda", "math"})
_REFUSED = {
    "struct": "structs", "class": "classes", "union": "unions", "enum": "enums",
    "using": "'using'", "namespace": "namespaces", "operator": "operators",
    "new": "'new'", "delete": "'delete'", "goto": "'goto'", "asm": "inline assembly",
    "__shared__": "shared memory", "__global__": "a kernel of its own",
    "reinterpret_cast": "reinterpret_cast", "throw": "exceptions", "try": "exceptions",
    "switch": "'switch'",
    **dict.fromkeys(("tex1D", "tex2D", "tex3D", "tex1Dfetch"),
                    "a texture (pass its array as 'raw' and index it)"),
}
_DEFINE = re.compile(r"[ \t]*#[ \t]*define[ \t]+(\w+)(\(?)[ \t]*(.*)")
_DIRECTIVE = re.compile(r"[ \t]*#[ \t]*(\w+)[ \t]*(\w*)")
_COMPLEX = {"float32": "complex64", "float64": "complex128"}


@record
class Spelling:
    """Respells texts of one kernel.

    Attributes
    ----------
    types
        Names of types: dtypes', C's, the placeholders, those of templates.
    macros
        ``#define NAME text``.
    templates
        The names of template parameters.
    defined
        Names of types that a ``typedef`` of the text defines.
    """

    types: set[str] = field(default_factory=lambda: {*ALIASES, AUTO})
    macros: dict[str, str] = field(default_factory=dict)
    templates: set[str] = field(default_factory=set)
    defined: set[str] = field(default_factory=set)

    def respell(self, source: Source) -> str:
        """The text for pycparser."""
        return _Text(self, source).run()


class _Text:
    """One text on its way."""

    def __init__(self, spelling: Spelling, source: Source) -> None:
        self.spelling, self.source = spelling, source
        self.at = 0
        self.out: list[str] = []
        self.tokens = list(self.read(source.text))

    def run(self) -> str:
        while self.at < len(self.tokens):
            self.step()
        return "".join(self.out)

    def error(self, what: str) -> Exception:
        line = 1 + sum(text.count("\n") for _, text in self.tokens[: self.at])
        return self.source.error(
            line, f"{what} not part of the C that is understood here; write the body "
                  "as a Python function, or, on cuda, use nf.RawKernel")

    def read(self, text: str) -> Iterator[tuple[str, str]]:
        """Every token; a macro stands for its text from its line on."""
        for number, line in _lines(_COMMENT.sub(_blank, text)):
            if self.directive(number, line):
                yield "space", "\n" * line.count("\n")
            else:
                yield from _tokens(line, self.spelling.macros)
            yield "space", "\n"

    def directive(self, number: int, line: str) -> bool:
        """Keep ``#define``, drop ``#pragma`` and ``#include``, refuse the others."""
        line = line.replace("\n", " ")
        found, define = _DIRECTIVE.match(line), _DEFINE.match(line)
        if found is None:
            return False
        if define and not define[2]:
            self.spelling.macros[define[1]] = define[3]
        elif found[1] == "undef":
            self.spelling.macros.pop(found[2], None)
        elif found[1] not in ("pragma", "include"):
            raise self.source.error(
                number, f"#{found[1]} of this form is not understood; write a "
                        "constant, or a __device__ function in the preamble")
        return True

    # Reading -----------------------------------------------------------------------

    def peek(self, ahead: int = 0) -> str:
        """The next token but spaces, `ahead` of the one after `at`."""
        words = (t for kind, t in self.tokens[self.at:] if kind != "space")
        for _ in range(ahead):
            next(words, "")
        return next(words, "")

    def take(self) -> str:
        """Go past the next token; what lies before it is kept."""
        while self.at < len(self.tokens) and self.tokens[self.at][0] == "space":
            self.out.append(self.tokens[self.at][1])
            self.at += 1
        if self.at >= len(self.tokens):
            return ""
        self.at += 1
        return self.tokens[self.at - 1][1]

    def expect(self, mark: str) -> None:
        if self.peek() != mark:
            raise self.error(f"a {self.peek()!r} where {mark!r} is expected is")
        self.take()

    # Writing -----------------------------------------------------------------------

    def step(self) -> None:
        kind, token = self.tokens[self.at]
        if kind != "word":
            self.out.append(self.take() if kind != "space" else token)
            self.at += kind == "space"
        elif token in _REFUSED:
            raise self.error(f"{_REFUSED[token]}: this is")
        elif token in _DROPPED:
            self.at += 1
        elif token == "extern":
            self.at += 1
            if self.peek().startswith('"'):
                self.take()
        elif token == "template":
            self.template()
        elif token == "typedef":
            self.typedef()
        elif token == "static_cast":
            self.static_cast()
        elif token == "numeric_limits":
            self.limit()
        elif self.tokens[self.at + 1: self.at + 2] == [("mark", "::")]:
            self.namespace(token)
        else:
            name = self.typename()
            self.out.append(self.take() if name is None else self.typed(name))

    def namespace(self, token: str) -> None:
        if token not in _NAMESPACES:
            raise self.error(f"{token}:: is")
        self.at += 2

    def template(self) -> None:
        """Parse ``template<typename T, …>``: its names are types from here on."""
        self.at += 1
        self.expect("<")
        while (token := self.take()) != ">":
            if token == "int" or not token:
                raise self.error("a template parameter that is no type is")
            if token not in ("typename", "class", ","):
                self.spelling.types.add(token)
                self.spelling.templates.add(token)

    def typedef(self) -> None:
        """The name before the semicolon is a type from here on."""
        words: list[str] = []
        while self.peek(len(words)) not in (";", ""):
            words.append(self.peek(len(words)))
        self.spelling.defined.update(words[-1:])
        self.out.append(self.take())

    def static_cast(self) -> None:
        self.at += 1
        self.expect("<")
        name = self.typename()
        if name is None:
            raise self.error(f"a cast to {self.peek()!r} is")
        self.expect(">")
        self.out.append(CAST + name)

    def limit(self) -> None:
        """Parse ``numeric_limits<T>::max()``."""
        self.static_cast()
        self.expect("::")
        self.out[-1] = f"{LIMIT}{self.take()}_{self.out[-1].removeprefix(CAST)}"

    def typename(self) -> str | None:
        """The name of the type that is written here, taken; None if none is."""
        first = self.peek()
        if first == "auto":
            self.take()
            return AUTO
        words = []
        while self.peek() in WORDS:
            words.append(self.take())
        if words:
            return type_name(words)
        if first == "complex" and self.peek(1) == "<":
            self.take()
            self.take()
            inner = self.typename()
            self.expect(">")
            if inner not in _COMPLEX:
                raise self.error(f"complex<{inner}> is")
            return _COMPLEX[inner]
        if first in self.spelling.types | self.spelling.defined:
            return self.take()
        return None

    def typed(self, name: str) -> str:
        """A type in its place: of a cast, of a reference to what is not changed."""
        if self.peek() == "(":
            return CAST + name
        constant = "const" in self.out[-3:] or self.peek() == "const"
        if self.peek() == "const":
            self.take()
        if self.peek() == "&":
            if not constant:
                raise self.error("a reference that is not const is")
            self.take()
        return name


def _blank(found: re.Match[str]) -> str:
    """A comment without its text, or a string as it is."""
    return found["string"] or " " + "\n" * found[0].count("\n")


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Numbers and texts of lines; one that ends by a backslash goes on in the next."""
    number = 1
    for line in re.findall(r"(?:\\\n|[^\n])*+\n|(?:\\\n|[^\n])++", text):
        yield number, line.removesuffix("\n").replace("\\\n", " \n")
        number += line.count("\n")


def _tokens(text: str, macros: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Kind and text of every token, macros replaced."""
    for found in _TOKEN.finditer(text):
        kind, token = str(found.lastgroup), found[0]
        if kind == "word" and token in macros:
            rest = {n: t for n, t in macros.items() if n != token}
            yield from _tokens(macros[token], rest)
        else:
            yield kind, token
