"""From CUDA C++ spelling to the C that pycparser reads, line by line.

What C++ adds to expressions and declarations is respelled: ``T(x)``, ``T{x}`` and
``static_cast<T>(x)`` become calls of ``__cast_T``, ``T t(x)`` and ``T t{x}`` become
``T t = …``, ``f<T>(x)`` a call of a name that `Spelling.explicit` explains, a reference
a volatile value, every fundamental type its dtype's name; qualifiers go.  Line numbers
stay as they are.
"""

from __future__ import annotations

from ...source.definitions import Source
from .names import AUTO, BITS, CAST, EXPLICIT, LIMIT, REFERENCE, Captures, Spelling
from .reader import NAMESPACES, Reader

__all__ = ["respell"]

_DROPPED = frozenset({
    "__device__", "__host__", "__forceinline__", "inline", "__inline__", "static",
    "__noinline__", "__restrict__", "__constant__", "typename", "volatile", "register",
})
#: What chooses among templates, with the way out.
_CHOOSING = {word: f"{what} (write one template that chooses by if constexpr "
                   "(std::is_same<T, float>::value))" for word, what in (
    ("enable_if", "enable_if"), ("enable_if_t", "enable_if_t"),
    ("requires", "a requires clause"), ("concept", "a concept"))}
_REFUSED = {
    "class": "classes", "union": "unions (bits are read as another type by *(int*)&x)",
    "namespace": "namespaces", "operator": "operators", "throw": "exceptions",
    "new": "'new'", "delete": "'delete'", "asm": "inline assembly", "try": "exceptions",
    "__shared__": "shared memory", "__global__": "a kernel of its own",
    **_CHOOSING,
    **dict.fromkeys(("tex1D", "tex2D", "tex3D", "tex1Dfetch"),
                    "a texture (pass its array as 'raw' and index it)"),
}
#: A value begins after these, and no index.
_BEFORE_VALUES = frozenset({"=", "(", ",", "{", "}", ";", "return", "?", ":", ""})
_CLOSING = {"(": ")", "[": "]", "{": "}"}


def respell(spelling: Spelling, source: Source, inside: bool = True) -> str:
    """The text for pycparser; `inside` a function, or beside functions."""
    return _Text(spelling, source, inside).run()


class _Text(Reader):
    """One text that is respelled.

    Attributes
    ----------
    closing
        For each open bracket, the mark that closes it; ``"};"`` of a struct.
    declaring
        The type of the declaration that is read, and the number of brackets around.
    """

    def __init__(self, spelling: Spelling, source: Source, inside: bool) -> None:
        super().__init__(spelling, source, inside)
        self.closing: list[str] = []
        self.declaring: tuple[str, int] | None = None

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
            if _last(self.out) != "if":
                self.out.append("const" * (self.peek() != "const"))
        elif token == "extern":
            self.at += 1
            if self.peek().startswith('"'):
                self.take()
        elif token == "template":
            self.template()
        elif token == "enum" or (token == "typedef" and self.peek(1) == "enum"):
            self.enumeration()
        elif token == "typedef":
            self.typedef()
        elif token == "using":
            self.using()
        elif token == "struct":
            self.struct()
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

    def struct(self) -> None:
        """``struct P { … }``: `P` is a type from here on; ``struct P`` alone is `P`."""
        self.take()
        name = self.peek()
        if self.peek(1) != "{":
            if name not in self.spelling.types:
                raise self.error(f"'struct {name}' without its members is")
            return
        self.take()
        self.members(name)

    def members(self, name: str) -> None:
        """The head of a struct, and the brace before its members."""
        self.spelling.types.add(name)
        self.out += ["struct ", name, " "]
        self.step_over_spaces()
        self.mark(self.peek())
        self.closing[-1] = "};"

    def namespace(self, token: str) -> None:
        if token not in NAMESPACES:
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
        ahead = 0
        while self.peek(ahead) not in ("{", ";", ""):
            if self.peek(ahead) in _CHOOSING:
                raise self.error(f"{_REFUSED[self.peek(ahead)]}: this is")
            ahead += 1
        self.at += 1
        self.expect("<")
        params: dict[str, str | None] = {}
        while self.peek() != ">":
            of = None if self.peek() in ("typename", "class") else self.typename()
            if of is None and self.take() not in ("typename", "class"):
                raise self.error("a template parameter that is no type and no integer "
                                 "is")
            if of is not None and self.is_type(self.peek()):
                raise self.error(f"the template parameter {self.peek()!r}, which is "
                                 "the name of a type as well, is")
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
        if self.peek(1) == "struct" and "{" in (self.peek(2), self.peek(3)):
            return self.named_struct()
        words: list[str] = []
        while self.peek(len(words)) not in (";", ""):
            words.append(self.peek(len(words)))
        self.spelling.defined.update(words[-1:])
        self.out.append(self.take())
        return None

    def named_struct(self) -> None:
        """``typedef struct { … } P`` is ``struct P { … }``."""
        at, depth = self.at, 0
        while at < len(self.tokens) and (depth != 1 or self.tokens[at][1] != "}"):
            depth += {"{": 1, "}": -1}.get(self.tokens[at][1], 0)
            at += 1
        at += 1
        while at < len(self.tokens) and self.tokens[at][0] == "space":
            at += 1
        if at >= len(self.tokens) or self.tokens[at][0] != "word":
            raise self.error("a typedef of a struct without a name is")
        name, self.tokens[at] = self.tokens[at][1], ("space", "")
        self.take()
        self.take()
        if self.peek() != "{":
            self.take()
        self.members(name)

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
            return f"{name} " if constant else f"{REFERENCE} {name} "
        return name


def _last(out: list[str]) -> str:
    """The last text that is no space."""
    return next((t for t in reversed(out) if t.strip()), "")
