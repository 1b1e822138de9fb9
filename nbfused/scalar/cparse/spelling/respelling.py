"""From CUDA C++ spelling to the C that pycparser reads, line by line.

What C++ adds to expressions and declarations is respelled: ``T(x)``, ``T{x}`` and
``static_cast<T>(x)`` become calls of ``__cast_T``, ``T t(x)`` and ``T t{x}`` become
``T t = …``, ``f<T>(x)`` a call of a name that `Spelling.explicit` explains, a reference
a volatile value, every fundamental type its dtype's name; qualifiers go.  Line numbers
stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ....support.records import record
from ...source.definitions import Source
from ..types import ALIASES, WORDS, type_name
from .preprocessor import Macro, Preprocessor

__all__ = ["AUTO", "CAST", "CUDA", "Captures", "EXPLICIT", "LIMIT", "REFERENCE", "Spelling"]

#: The prefix of the call that a cast is respelled as, the same of numeric limits and of
#: calls with template arguments, the type of ``auto x = …``, the qualifier of ``T& x``.
CAST, LIMIT, EXPLICIT, AUTO = "__cast_", "__limit_", "__explicit_", "__auto"
REFERENCE = "volatile"
#: The prefix of functions of CUDA's that are written in C.
CUDA = "__cuda_"

_DROPPED = frozenset({
    "__device__", "__host__", "__forceinline__", "inline", "__inline__", "static",
    "__noinline__", "__restrict__", "__constant__", "typename", "volatile", "register",
})
_NAMESPACES = frozenset({"std", "thrust", "cupy", "cuda", "math", "type_traits"})
#: What stands between the types of a conditional one.
_CONDITIONAL = frozenset({"conditional", "is_same", "value", "type", "typename", "cupy",
                          "std", "type_traits", "cuda", "::", "<", ">", ","})
_REFUSED = {
    "class": "classes", "union": "unions", "enum": "enums",
    "namespace": "namespaces", "operator": "operators",
    "new": "'new'", "delete": "'delete'", "goto": "'goto'", "asm": "inline assembly",
    "__shared__": "shared memory", "__global__": "a kernel of its own",
    "reinterpret_cast": "reinterpret_cast", "throw": "exceptions", "try": "exceptions",
    **dict.fromkeys(("tex1D", "tex2D", "tex3D", "tex1Dfetch"),
                    "a texture (pass its array as 'raw' and index it)"),
}
#: A value begins after these, and no index.
_BEFORE_VALUES = frozenset({"=", "(", ",", "{", "}", ";", "return", "?", ":", ""})
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_COMPLEX = {"float32": "complex64", "float64": "complex128"}


@record(frozen=True)
class Captures:
    """What a lambda sees of the variables around it.

    Attributes
    ----------
    default
        Whether it is by reference; None if what is not named is not seen.
    names
        The same of single variables.
    text
        The lambda as a function.
    source
        The text that it stands in, and its line there.
    """

    default: bool | None
    names: Mapping[str, bool]
    text: str
    source: tuple[Source, int]


@record
class Spelling:
    """Respells texts of one kernel.

    Attributes
    ----------
    types
        Names of types: dtypes', C's, the placeholders, those of templates.
    macros
        What ``#define`` defines, by name.
    templates
        For each function that is a template, its parameters by their names: None for a
        type, the type of an integer.
    defined
        Names of types that a ``typedef`` of the text defines.
    explicit
        For the name of a call with template arguments, the function and its arguments:
        the names of types; None for an integer, which is the call's first argument.
    conditional
        For the name of a type that depends on others: two that may be the same, the
        type if they are, the type if they are not.
    captures
        The lambdas by the names of their functions.
    lambdas
        For the name of a variable, the functions of the lambdas that it may be.
    """

    types: set[str] = field(default_factory=lambda: {*ALIASES, AUTO})
    macros: dict[str, Macro] = field(default_factory=dict)
    templates: dict[str, dict[str, str | None]] = field(default_factory=dict)
    defined: set[str] = field(default_factory=set)
    explicit: dict[str, tuple[str, tuple[str | None, ...]]] = field(
        default_factory=dict)
    conditional: dict[str, tuple[str, str, str, str]] = field(default_factory=dict)
    captures: dict[str, Captures] = field(default_factory=dict)
    lambdas: dict[str, list[str]] = field(default_factory=dict)

    def respell(self, source: Source, inside: bool = True) -> str:
        """The text for pycparser; `inside` a function, or beside functions."""
        return _Text(self, source, inside).run()


class _Text:
    """One text on its way.

    Attributes
    ----------
    inside
        Whether its first level is inside a function.
    closing
        For each open bracket, the mark that closes it; ``"};"`` of a struct.
    declaring
        The type of the declaration that is read, and the number of brackets around.
    """

    def __init__(self, spelling: Spelling, source: Source, inside: bool) -> None:
        self.spelling, self.source, self.inside = spelling, source, inside
        self.closing: list[str] = []
        self.declaring: tuple[str, int] | None = None
        self.at = 0
        self.out: list[str] = []
        self.tokens = Preprocessor(source, spelling.macros).tokens()

    def run(self) -> str:
        while self.at < len(self.tokens):
            self.step()
        return "".join(self.out)

    def error(self, what: str) -> Exception:
        line = 1 + sum(text.count("\n") for _, text in self.tokens[: self.at])
        return self.source.error(
            line, f"{what} not part of the C that is understood here; write the body "
                  "as a Python function, or, on cuda, use nf.RawKernel")

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
        if kind == "space":
            self.out.append(token)
            self.at += 1
        elif kind == "mark":
            self.mark(token)
        elif kind != "word":
            self.out.append(self.take())
        elif token in _REFUSED:
            raise self.error(f"{_REFUSED[token]}: this is")
        elif token in _DROPPED:
            self.at += 1
        elif token == "constexpr":
            self.take()
            self.out.append("const" * (self.peek() != "const"))
        elif token == "extern":
            self.at += 1
            if self.peek().startswith('"'):
                self.take()
        elif token == "template":
            self.template()
        elif token == "typedef":
            self.typedef()
        elif token == "using":
            self.using()
        elif token == "struct":
            self.struct()
        elif token == "static_cast":
            self.static_cast()
        elif token == "numeric_limits":
            self.limit()
        elif self.tokens[self.at + 1: self.at + 2] == [("mark", "::")]:
            self.namespace(token)
        else:
            self.word()

    def word(self) -> None:
        """A type in its place, a call with template arguments, or a name."""
        name = self.typename()
        if name is not None:
            text = self.typed(name)
            self.out.append(text)
            if not text.startswith(CAST):
                self.declarator(name)
        elif self.peek(1) == "<" and self.has_types():
            self.explicit()
        elif not (self.declaring and self.declaring[1] == len(self.closing)
                  and _last(self.out) == "," and self.declarator(self.declaring[0])):
            self.out.append(self.take())

    def mark(self, token: str) -> None:
        """A mark; brackets are counted, and those of ``T{x}`` become round."""
        if token == "[" and _last(self.out) in _BEFORE_VALUES:
            return self.closure()
        self.take()
        if token in _CLOSING:
            if token == "{" and _last(self.out) == "]" and self.declaring and \
                    self.declaring[1] == len(self.closing):
                self.out.append(" = ")  # of ``T v[2]{x, y}``
            if token == "(" and self.closing[-1:] == ["};"]:
                raise self.error("a struct with functions of its own is")
            self.closing.append(_CLOSING[token])
        elif token in (")", "]", "}") and self.closing:
            closed = self.closing.pop()
            token = closed if closed == ")" else token
        if self.declaring and (token == ";" or len(self.closing) < self.declaring[1]):
            self.declaring = None
        self.out.append(token)
        return None

    def is_type(self, word: str) -> bool:
        """True if a type begins with a word."""
        return word in self.spelling.types or word in self.spelling.defined or \
            word in WORDS or word in ("auto", "const", "complex", "struct")

    def declarator(self, name: str) -> bool:
        """``T t{x}`` and ``T t(x)`` are ``T t = …``; False where no value is given."""
        if not self.peek().isidentifier() or self.peek() in _DROPPED:
            return False
        self.declaring = name, len(self.closing)
        mark = self.peek(1)
        if mark not in ("(", "{") or self.is_function():
            return False
        self.out += [" ", self.take(), " = "]
        if mark == "(" and name != AUTO:
            self.out.append(CAST + name)
        elif name == AUTO:
            self.mark(self.peek())
            self.out[-1], self.closing[-1] = "(", ")"
        return True

    def is_function(self) -> bool:
        """True if ``T name(`` declares a function: a type or nothing follows."""
        if self.peek(1) == "{":
            return False
        return not (self.inside or "}" in self.closing) or self.peek(2) == ")" or (
            self.is_type(self.peek(2)) and self.peek(3) not in ("(", "{", "<"))

    def has_types(self) -> bool:
        """True for ``f<T>(``, false for ``a < T(b)``."""
        params = self.spelling.templates.get(self.peek(), {})
        if any(of is not None for of in params.values()):
            return True
        ahead = 2
        while self.is_type(self.peek(ahead)) or (ahead > 2 and self.peek(ahead) == ","):
            ahead += 1
        return ahead > 2 and self.peek(ahead) == ">" and self.peek(ahead + 1) == "("

    def explicit(self) -> None:
        """``f<T, 3>(x)``, where arguments of a template are given."""
        name = self.take()
        self.expect("<")
        types: list[str | None] = []
        numbers: list[str] = []
        while self.peek() not in (">", ""):
            types.append(self.typename())
            if types[-1] is None:
                numbers.append(self.number())
            if self.peek() == ",":
                self.take()
        self.expect(">")
        given = f"{name}_{len(self.spelling.explicit)}"
        self.spelling.explicit[EXPLICIT + given] = name, tuple(types)
        self.out.append(EXPLICIT + given)
        if numbers:
            self.mark(self.peek())
            self.out.append(", ".join(numbers) + ", " * (self.peek() != ")"))

    def number(self) -> str:
        """The template argument that is an integer, taken."""
        words, depth = [], 0
        while depth or self.peek() not in (",", ">", ""):
            depth += {"(": 1, ")": -1}.get(self.peek(), 0)
            words.append(self.take())
        if not words:
            raise self.error(f"the template argument {self.peek()!r} is")
        return f"({' '.join(words)})"

    def using(self) -> None:
        """``using A = B`` is ``typedef B A``."""
        self.at += 1
        name = self.take()
        if self.peek() != "=":
            raise self.error(f"'using {name}': this is")
        self.take()
        found = self.typename() or self.conditional()
        if found is None:
            raise self.error(f"'using {name} = {self.peek()}': this is")
        self.spelling.defined.add(name)
        self.out.append(f"typedef {found} {name}")

    def conditional(self) -> str | None:
        """The type that ``conditional<is_same<A, B>::value, C, D>::type`` is."""
        while self.peek() == "typename" or (self.peek(1) == "::"
                                            and self.peek() in _NAMESPACES):
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

    def struct(self) -> None:
        """``struct P { … }``: `P` is a type from here on; ``struct P`` alone is `P`."""
        self.take()
        name = self.peek()
        if self.peek(1) != "{":
            if name not in self.spelling.types:
                raise self.error(f"'struct {name}' without its members is")
            return
        self.take()
        self.spelling.types.add(name)
        self.out += ["struct ", name]
        self.mark(self.peek())
        self.closing[-1] = "};"

    def namespace(self, token: str) -> None:
        if token not in _NAMESPACES:
            raise self.error(f"{token}:: is")
        self.at += 2

    def closure(self) -> None:
        """``auto f = [&](T a) { … }``: the lambda becomes a function of its own."""
        declared = [t for t in self.out if t.strip()][-3:]
        if len(declared) < 3 or declared[0] != AUTO or declared[2] != "=":
            raise self.error("a lambda that is no variable of its own (write auto f = "
                             "[&](T a) { … };) is")
        line = 1 + sum(text.count("\n") for _, text in self.tokens[: self.at])
        default, names = self.captured()
        before, declaring, self.out, self.declaring = self.out, self.declaring, [], None
        if self.peek() == "(":
            self.until_closed()
        else:
            self.out.append("(void)")
        returned = AUTO
        if self.peek() == "->":
            self.take()
            returned = self.typename() or ""
        if self.peek() != "{" or not returned:
            raise self.error(f"a {self.peek()!r} in the head of a lambda is")
        self.until_closed()
        key = f"__lambda_{len(self.spelling.captures)}"
        text = "".join(self.out)
        self.spelling.captures[key] = Captures(
            default, names, f"{returned} {key}{text}", (self.source, line))
        self.spelling.lambdas.setdefault(declared[1], []).append(key)
        self.out, self.declaring = [*before, key, "\n" * text.count("\n")], declaring

    def captured(self) -> tuple[bool | None, dict[str, bool]]:
        """What a lambda captures: ``[&]``, ``[=]``, ``[x, &y]``."""
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

    def until_closed(self) -> None:
        """Respell what stands in brackets."""
        depth = len(self.closing)
        self.step_over_spaces()
        self.mark(self.peek())
        while len(self.closing) > depth:
            if self.at >= len(self.tokens):
                raise self.error("a lambda without its end is")
            self.step()

    def step_over_spaces(self) -> None:
        """Keep the spaces before the next token."""
        while self.at < len(self.tokens) and self.tokens[self.at][0] == "space":
            self.step()

    def template(self) -> None:
        """Parse ``template<typename T, …>``: its names are types from here on."""
        self.at += 1
        self.expect("<")
        params: dict[str, str | None] = {}
        while self.peek() != ">":
            of = None if self.peek() in ("typename", "class") else self.typename()
            if of is None and self.take() not in ("typename", "class"):
                raise self.error("a template parameter that is no type and no integer "
                                 "is")
            params[self.take()] = of
            if self.peek() not in (",", ">"):
                raise self.error("a template parameter that has a value by default is")
            if self.peek() == ",":
                self.take()
        self.take()
        if self.peek() == "struct":
            raise self.error("a template of a struct is")
        self.spelling.types.update(n for n, of in params.items() if of is None)
        ahead = 0
        while self.peek(ahead + 1) not in ("(", ""):
            ahead += 1
        self.spelling.templates[self.peek(ahead)] = params

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
        if first in self.spelling.types or first in self.spelling.defined:
            return self.take()
        return None

    def typed(self, name: str) -> str:
        """A type in its place: of a cast, of a reference to what is not changed."""
        if self.peek() == "(":
            return CAST + name
        if self.peek() == "{":
            self.mark("{")
            self.out.pop()
            self.closing[-1] = ")"
            return f"{CAST}{name}("
        constant = "const" in self.out[-3:] or self.peek() == "const"
        if self.peek() == "const":
            self.take()
        if self.peek() == "&":
            self.take()
            return f"{name} " if constant else f"{REFERENCE} {name} "
        return name


def _last(out: list[str]) -> str:
    """The last text that is no space."""
    return next((t for t in reversed(out) if t.strip()), "")
