"""Reading of CUDA C++: tokens, and the names of types."""

from __future__ import annotations

import re

from ...source.definitions import Source
from ..types import TRAITS, WORDS, type_name
from .names import AUTO, TRAIT, Spelling
from .preprocessor import Preprocessor

__all__ = ["NAMESPACES", "Reader", "last_text"]

NAMESPACES = frozenset({"std", "thrust", "cupy", "cuda", "math", "type_traits"})
#: What stands between the types of a conditional one.
_CONDITIONAL = frozenset({"conditional", "is_same", "value", "type", "typename", "cupy",
                          "std", "type_traits", "cuda", "::", "<", ">", ","})
_INTEGERS = re.compile(r"\b(?:0[xX][0-9a-fA-F]+|[1-9]\d*)(?![\d.])")
_COMPLEX = {"float32": "complex64", "float64": "complex128"}


class Reader:
    """One text on its way.

    Attributes
    ----------
    inside
        Whether its first level is inside a function.
    at
        The number of the next token.
    out
        What is written so far.
    struct
        The struct whose members are read.
    aliases
        The names of types that this one has for itself, and what they are.
    """

    def __init__(self, spelling: Spelling, source: Source, inside: bool) -> None:
        self.spelling, self.source, self.inside = spelling, source, inside
        self.at = 0
        self.out: list[str] = []
        self.struct = ""
        self.aliases: dict[str, str] = {}
        self.tokens = Preprocessor(source, spelling.macros).tokens()

    def error(self, what: str) -> Exception:
        """The error that says what the next token begins."""
        return self.source.error(
            self.line(), f"{what} not part of the C that is understood here; write the "
                         "body as a Python function, or, on cuda, use nf.RawKernel")

    def line(self) -> int:
        """The line of the next token but spaces."""
        at = self.at
        while self.tokens[at: at + 1] and self.tokens[at][0] == "space":
            at += 1
        at = at if self.tokens[at:] else self.at
        return 1 + sum(text.count("\n") for _, text in self.tokens[:at])

    def peek(self, ahead: int = 0) -> str:
        """The next token but spaces, `ahead` of the one after `at`."""
        for k in range(self.at, len(self.tokens)):  # a slice would copy all the rest
            kind, token = self.tokens[k]
            if kind != "space":
                if not ahead:
                    return token
                ahead -= 1
        return ""

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
        """Go past a mark that must be there."""
        if self.peek() != mark:
            raise self.error(f"a {self.peek()!r} where {mark!r} is expected is")
        self.take()

    def is_type(self, word: str) -> bool:
        """True if a type begins with a word."""
        return word in self.spelling.types or word in self.spelling.defined or \
            word in WORDS or word in self.aliases or word in (
                "auto", "const", "complex", "struct")

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
        if first in self.aliases:
            return self.aliases[self.take()]
        if first in self.spelling.structs and self.spelling.structs[first].params:
            return self.instance_name()
        if first in self.spelling.types or first in self.spelling.defined:
            return self.take()
        return None

    def instance_name(self) -> str:
        """The name of ``P<T>``, taken; inside of the template `P` alone is that."""
        name = self.take()
        params = tuple(self.spelling.structs[name].params)
        if self.peek() != "<":
            if name != self.struct:
                raise self.error(f"{name} without its template arguments (write {name}<"
                                 f"{', '.join(params)}>) is")
            return self.instance(name, params)
        self.expect("<")
        given: list[str] = []
        while self.peek() not in (">", ""):
            found = self.typename()
            if found is None:
                raise self.error(f"a {self.peek()!r} where a type is expected is")
            given.append(found)
            if self.peek() != ">":
                self.expect(",")
        self.expect(">")
        if len(given) != len(params):
            raise self.error(f"{name} of {len(given)} types, where its template takes "
                             f"{len(params)}, is")
        return self.instance(name, tuple(given))

    def instance(self, name: str, given: tuple[str, ...]) -> str:
        """The name of the type that a template of a struct is for some types."""
        for key, known in self.spelling.instances.items():
            if known == (name, given):
                return key
        key = f"__struct_{len(self.spelling.instances)}"
        self.spelling.instances[key] = name, given
        self.spelling.types.add(key)
        return key

    def conditional(self) -> str | None:
        """The type that ``conditional<is_same<A, B>::value, C, D>::type`` is."""
        while self.peek() == "typename" or (self.peek(1) == "::"
                                            and self.peek() in NAMESPACES):
            self.take()
            if self.peek() == "::":
                self.take()
        if self.peek() != "conditional":
            return None
        found: list[str] = []
        while self.peek() != ";":
            name = self.typename()
            if name is not None:
                found.append(name)
            elif self.take() not in _CONDITIONAL:
                raise self.error("a type that depends on more than is_same<A, B> is")
        if len(found) != 4:
            raise self.error("a type that depends on more than is_same<A, B> is")
        key = f"__conditional_{len(self.spelling.conditional)}"
        same, other, then, orelse = found
        self.spelling.conditional[key] = same, other, then, orelse
        self.spelling.types.add(key)
        return key

    def is_trait(self) -> bool:
        """True before a question about types."""
        return self.peek().removesuffix("_v") in TRAITS and self.peek(1) == "<"

    def trait(self) -> None:
        """``is_same<A, B>::value`` or ``is_same_v<A, B>``, which becomes a constant."""
        question = self.take()
        name = question.removesuffix("_v")
        self.expect("<")
        types: list[str] = []
        while self.peek() != ">":
            found = self.typename()
            if found is None:
                raise self.error(f"a {self.peek()!r} where a type is expected is")
            types.append(found)
            if self.peek() != ">":
                self.expect(",")
        self.expect(">")
        if len(types) != TRAITS[name].arity:
            raise self.error(f"{name} of {len(types)} types is")
        if question == name:
            self.expect("::")
            self.expect("value")
        key = f"{TRAIT}{len(self.spelling.traits)}"
        self.spelling.traits[key] = name, tuple(types)
        self.out.append(key)

    def captured(self) -> tuple[bool | None, dict[str, bool]]:
        """The captures of a lambda: ``[&]``, ``[=]``, ``[x, &y]``."""
        default, names = None, dict[str, bool]()
        self.expect("[")
        while self.peek() != "]":
            reference = self.peek() == "&"
            if self.peek() in ("&", "="):
                word = self.take()
                if self.peek() in (",", "]") and default is None and not names:
                    default = reference
                elif word == "=":
                    raise self.error("'=' behind a capture is")
            if self.peek() not in (",", "]"):
                name = self.take()
                if not name.isidentifier() or self.peek() not in (",", "]"):
                    raise self.error(f"the capture {name!r} of a lambda is")
                names[name] = reference
            if self.peek() == ",":
                self.take()
        self.take()
        return default, names

    def enumeration(self) -> None:
        """``enum E { A, B = 4 }`` is ``const int A = 0, B = 4``, and `E` an int."""
        if self.take() == "typedef":
            self.take()
        if self.peek() in ("class", "struct"):
            raise self.error("an enum with a scope is")
        names = [self.take()] if self.peek() not in ("{", ":") else []
        of, each = "int32", AUTO  # 1u << 31 is no int
        if self.peek() == ":":
            self.take()
            of = each = self.typename() or ""
        if self.peek() != "{" or not of:
            if not names or names[0] not in self.spelling.defined:
                raise self.error("an enum without its members is")
            self.out.append(names[0])
            return
        self.take()
        members: list[str] = []
        while self.peek() not in ("}", ""):
            name = self.take()
            given = self.member() if self.peek() == "=" else \
                f"{members[-1].partition(' ')[0]} + 1" if members else "0"
            members.append(f"{name} = {given}")
            if self.peek() == ",":
                self.take()
        self.expect("}")
        if self.peek() != ";":
            names.append(self.take())  # of a typedef
        if each == AUTO and any(int(n, 0) >= 1 << 31 for m in members for n in
                                _INTEGERS.findall(m)):
            of = each = "uint32"  # one that no int holds makes them all unsigned
        self.spelling.defined.update(names)
        self.out += [*(f"typedef {of} {name}; " for name in names),
                     f"const {each} ", ", ".join(members)]

    def member(self) -> str:
        """The number that a member of an enum is given, taken."""
        words, depth = [], 0
        self.take()
        while depth or self.peek() not in (",", "}", ""):
            depth += {"(": 1, ")": -1}.get(self.peek(), 0)
            words.append(self.take())
        return " ".join(words)


def last_text(out: list[str]) -> str:
    """The last text that is no space."""
    return next((t for t in reversed(out) if t.strip()), "")
