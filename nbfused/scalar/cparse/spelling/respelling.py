"""From CUDA C++ spelling to the C that pycparser reads, line by line.

What C++ adds to expressions and declarations is respelled: ``T(x)``, ``T{x}`` and
``static_cast<T>(x)`` become calls of ``__cast_T``, ``T t(x)`` and ``T t{x}`` become
``T t = …``, ``f<T>(x)`` a call of a name that `Spelling.explicit` explains, a reference
a volatile value, every fundamental type its dtype's name; qualifiers go.  Line numbers
stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from ...source.definitions import Source
from .declarations import CHOOSING, read_template, read_typedef, read_using
from .names import (
    AUTO,
    BITS,
    CAST,
    EXPLICIT,
    LIMIT,
    LIST,
    OPERATOR,
    REFERENCE,
    TEMPLATE,
    Captures,
    Spelling,
    plain_name,
)
from .reader import NAMESPACES, Reader, last_text
from .structs import operator_word, read_static, read_struct, read_this

__all__ = ["respell"]

_DROPPED = frozenset({
    "__device__", "__host__", "__forceinline__", "inline", "__inline__", "static",
    "__noinline__", "__restrict__", "__constant__", "typename", "volatile", "register",
})
_REFUSED = {
    "union": "unions (bits are read as another type by *(int*)&x)",
    "namespace": "namespaces", "throw": "exceptions",
    "new": "'new'", "delete": "'delete'", "asm": "inline assembly", "try": "exceptions",
    "__shared__": "shared memory", "__global__": "a kernel of its own",
    **CHOOSING,
    **dict.fromkeys(("tex1D", "tex2D", "tex3D", "tex1Dfetch"),
                    "a texture (pass its array as 'raw' and index it)"),
}
#: A value begins after these, and no index.
_BEFORE_VALUES = frozenset({"=", "(", ",", "{", "}", ";", "return", "?", ":", ""})
_CLOSING = {"(": ")", "[": "]", "{": "}"}


def respell(spelling: Spelling, source: Source, inside: bool = True) -> str:
    """The text for pycparser; `inside` a function, or beside functions."""
    return Text(spelling, source, inside).run()


class Text(Reader):
    """One text that is respelled.

    Attributes
    ----------
    closing
        For each open bracket, the mark that closes it.
    declaring
        The type of the declaration that is read, and the number of brackets around.
    header
        The parameters of a template whose function is not named yet.
    heads
        The number of brackets around a parameter of a function that is defined; 0
        where none is.
    """

    def __init__(self, spelling: Spelling, source: Source, inside: bool) -> None:
        super().__init__(spelling, source, inside)
        self.closing: list[str] = []
        self.declaring: tuple[str, int] | None = None
        self.header: dict[str, str | None] | None = None
        self.heads = 0 if inside else 1

    def run(self) -> str:
        while self.at < len(self.tokens):
            self.step()
        return "".join(self.out)

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
            if last_text(self.out) != "if":
                self.out.append("const" * (self.peek() != "const"))
        elif token == "extern":
            self.at += 1
            if self.peek().startswith('"'):
                self.take()
        elif token == "template":
            read_template(self)
        elif token == "enum" or (token == "typedef" and self.peek(1) == "enum"):
            self.enumeration()
        elif token == "typedef":
            read_typedef(self)
        elif token == "using":
            read_using(self)
        elif token in ("struct", "class"):
            header, self.header = self.header, None
            read_struct(self, header or {})
        elif token == "operator":
            self.out.append(self.declared(OPERATOR + operator_word(self)))
        elif token == "this":
            read_this(self)
        elif token == "static_cast":
            self.static_cast()
        elif token == "reinterpret_cast":
            self.reinterpret_cast()
        elif token == "bit_cast":
            self.static_cast()
            self.out[-1] = BITS + self.out[-1].removeprefix(CAST)
        elif token == "numeric_limits":
            self.limit()
        elif self.is_trait():
            self.trait()
        elif self.tokens[self.at + 1: self.at + 2] == [("mark", "::")]:
            self.namespace(token)
        elif self.header is not None and self.peek(1) == "(" and not self.is_type(
                token):
            self.out.append(self.declared(self.take()))
        else:
            self.word()

    def declared(self, name: str) -> str:
        """The name of a function that is defined; one that tells a template's."""
        if self.header is None:
            return name
        key = f"{TEMPLATE}{len(self.spelling.templates)}_{name}"
        self.spelling.templates[key], self.header = self.header, None
        return key

    def word(self) -> None:
        """A type in its place, a call with template arguments, or a name."""
        name = self.typename()
        if name is not None and self.peek() == "::":
            read_static(self, name)
        elif name is not None:
            text = self.typed(name)
            self.out.append(text)
            if not text.startswith(CAST):
                self.declarator(name)
        elif self.peek(1) == "<" and self.has_types():
            self.explicit()
        elif not (self.declaring and self.declaring[1] == len(self.closing)
                  and last_text(self.out) == ","
                  and self.declarator(self.declaring[0])):
            self.out.append(self.take())

    def mark(self, token: str) -> None:
        """A mark; brackets are counted, and those of ``T{x}`` become round."""
        if token == "[" and last_text(self.out) in _BEFORE_VALUES:
            return self.closure()
        if token == "=" and self.in_head():
            return self.default()
        self.take()
        last = last_text(self.out)
        if token == "{" and (last == "return" or last.endswith("(") or (
                last == "=" and self.declaring is None) or (
                last == "," and self.closing[-1:] == [")"])):
            self.out.append(f" {LIST}(")
            self.closing.append(")")
            return None
        if token in _CLOSING:
            if token == "{" and last_text(self.out) == "]" and self.declaring and \
                    self.declaring[1] == len(self.closing):
                self.out.append(" = ")  # of ``T v[2]{x, y}``
            self.closing.append(_CLOSING[token])
        elif token in (")", "]", "}") and self.closing:
            token = self.closing.pop()
        if self.declaring and (token == ";" or len(self.closing) < self.declaring[1]):
            self.declaring = None
        self.out.append(token)
        return None

    def in_head(self) -> bool:
        """True among the parameters of a function that is defined."""
        return bool(self.heads) and self.closing[self.heads - 1:] == [")"]

    def default(self) -> None:
        """``int k = 2`` of a parameter is ``_Alignas(2) int k``, which C can say."""
        self.take()
        at = max(k for k, t in enumerate(self.out) if t in ("(", ","))
        self.out.insert(at + 1, f" _Alignas({self.respelled((',', ')'))}) ")

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
        name = self.peek()
        if any(of is not None for key, params in self.spelling.templates.items()
               if plain_name(key) == name for of in params.values()):
            return True
        ahead, depth = 2, 1
        while depth and (self.is_type(self.peek(ahead)) or (
                ahead > 2 and self.peek(ahead) in (",", "<", ">"))):
            depth += {"<": 1, ">": -1}.get(self.peek(ahead), 0)
            ahead += 1
        return ahead > 3 and not depth and self.peek(ahead) == "("

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

    def namespace(self, token: str) -> None:
        """``std::``, or ``P::`` before a static function of a struct."""
        if token in self.spelling.structs:
            return read_static(self, self.typename() or "")
        if token not in NAMESPACES:
            raise self.error(f"{token}:: is")
        self.at += 2
        return None

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

    def until_closed(self) -> None:
        """Respell what stands in brackets."""
        depth = len(self.closing)
        self.step_over_spaces()
        self.mark(self.peek())
        while len(self.closing) > depth:
            if self.at >= len(self.tokens):
                raise self.error("a bracket that is not closed is")
            self.step()

    def apart(self, read: Callable[[], None]) -> str:
        """The text of what is read, which goes elsewhere; its lines stay here."""
        before, self.out = (self.out, self.declaring), []
        self.declaring = None
        read()
        found, (self.out, self.declaring) = "".join(self.out), before
        self.out.append("\n" * found.count("\n"))
        return found

    def respelled(self, stops: Collection[str]) -> str:
        """The text before one of some marks, apart."""
        depth = len(self.closing)

        def read() -> None:
            while len(self.closing) > depth or self.peek() not in stops:
                if self.at >= len(self.tokens):
                    raise self.error("a value without its end is")
                self.step()

        return self.apart(read)

    def step_over_spaces(self) -> None:
        """Keep the spaces before the next token."""
        while self.at < len(self.tokens) and self.tokens[self.at][0] == "space":
            self.step()

    def static_cast(self) -> None:
        self.at += 1
        self.expect("<")
        name = self.typename()
        if name is None:
            raise self.error(f"a cast to {self.peek()!r} is")
        self.expect(">")
        self.out.append(CAST + name)

    def reinterpret_cast(self) -> None:
        """Parse ``reinterpret_cast<T*>(p)`` as ``(T*)(p)``, ``<T&>(x)`` as a value."""
        self.at += 1
        self.expect("<")
        if self.peek() == "const":
            self.take()
        name, mark = self.typename(), self.peek()
        if name is None or mark not in ("*", "&"):
            raise self.error("a reinterpret_cast to what is no pointer and no reference"
                             " is")
        self.take()
        self.expect(">")
        self.out.append(f"({name}*)" if mark == "*" else f"*({name}*)&")

    def limit(self) -> None:
        """Parse ``numeric_limits<T>::max()``."""
        self.static_cast()
        self.expect("::")
        self.out[-1] = f"{LIMIT}{self.take()}_{self.out[-1].removeprefix(CAST)}"

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
            if constant and not self.in_head():
                return f"{name} "
            return f"{'const ' * constant}{REFERENCE} {name} "
        return name
