"""Structs of C++: what they declare besides numbers becomes functions beside them.

``float P::sum() const`` becomes ``float __method_sum(P __self)``, an operator
``__operator_add``, a constructor ``P __new_P(…)``; a template of a struct gives its
parameters to all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .names import (
    CAST,
    DEFAULT,
    EXPLICIT,
    LIST,
    MEMBERS,
    METHOD,
    NEW,
    OPERATOR,
    OPERATORS,
    REFERENCE,
    SELF,
    STATIC,
    Hoisted,
    Struct,
    shown_name,
)
from .reader import last_text

if TYPE_CHECKING:
    from .respelling import Text

__all__ = ["operator_word", "read_members", "read_static", "read_struct", "read_this"]

_SPECIFIERS = frozenset({
    "__device__", "__host__", "__forceinline__", "inline", "__inline__", "constexpr",
    "__noinline__", "explicit", "virtual", "const", "typename", "static", "friend"})
_AFTER = frozenset({"const", "noexcept", "override", "final"})
_ACCESS = frozenset({"public", "private", "protected"})


def read_struct(text: Text, params: dict[str, str | None]) -> None:
    """``struct P { … }``: `P` is a type from here on; ``struct P`` alone is `P`."""
    text.take()
    name = text.peek()
    if text.peek(1) == ":":
        raise text.error("a struct that is derived from another is")
    if params and any(of is not None for of in params.values()):
        raise text.error("a template of a struct whose parameter is an integer is")
    if text.peek(1) == "{":
        text.take()
        read_members(text, name, params)
        text.declarator(name)
    elif text.peek(1) == ";":
        text.take()  # which says that it comes later
    elif name not in text.spelling.types:
        raise text.error(f"'struct {name}' without its members is")


def read_members(text: Text, name: str, params: dict[str, str | None]) -> None:
    """Respell the members of a struct, from the brace before them to that behind."""
    text.spelling.types.add(name)
    text.spelling.structs[name] = Struct(params)
    outer, text.struct, text.aliases = (text.struct, text.aliases), name, {}
    text.out += ["struct ", name, " "]
    text.expect("{")
    text.out.append("{")
    members = _Members(text, name)
    while text.peek() != "}":
        members.read()
    text.take()
    text.out.append("}")
    members.finish()
    text.struct, text.aliases = outer


def operator_word(text: Text) -> str:
    """The word for ``operator+``, taken."""
    text.take()
    mark = text.take()
    if (mark, text.peek()) in (("(", ")"), ("[", "]"), (">", ">"), ("<", "<")):
        mark += text.take()
    if mark not in OPERATORS:
        raise text.error(f"an operator {mark} of a struct is")
    return OPERATORS[mark]


def read_this(text: Text) -> None:
    """``this->a`` is ``__self.a``; `this` alone is the address."""
    text.take()
    if text.peek() == "->":
        text.take()
        text.out += [SELF, "."]
    elif last_text(text.out) == "*":
        text.out[len(text.out) - 1 - text.out[::-1].index("*")] = ""
        text.out.append(SELF)
    else:
        text.out.append(f"(&{SELF})")


def read_static(text: Text, name: str) -> None:
    """``P<T>::f`` as a name; the type is taken."""
    struct, given = text.spelling.instances.get(name, (name, ()))
    text.expect("::")
    called = f"{STATIC}{struct}_{text.take()}"
    if given:
        key = f"{EXPLICIT}{called}_{len(text.spelling.explicit)}"
        text.spelling.explicit[key] = called, given
        called = key
    text.out.append(called)


class _Members:
    """The members of one struct.

    Attributes
    ----------
    type
        The struct inside of itself: ``P``, or ``P<T>``.
    defaults
        Statements that give members the values that they are declared with.
    constructors
        The parameters, the members' values by their names, the body and the line of
        each.
    """

    def __init__(self, text: Text, name: str) -> None:
        self.text, self.name = text, name
        self.info: Struct = text.spelling.structs[name]
        self.type: str = text.instance(name, tuple(self.info.params)) \
            if self.info.params else name
        self.fields: dict[str, str] = {}
        self.defaults: list[str] = []
        self.constructors: list[tuple[str, list[tuple[str, str]], str, int]] = []

    def read(self) -> None:
        """One declaration."""
        text, words = self.text, set[str]()
        while text.peek() in _SPECIFIERS:
            words.add(text.take())
        token = text.peek()
        if token in _ACCESS and text.peek(1) == ":":
            text.take()
            text.take()
        elif token == ";":
            text.take()
        elif token in ("typedef", "using"):
            self.alias(token)
        elif token == self.name and text.peek(1) == "(":
            text.take()
            self.constructor()
        elif token in ("template", "operator", "~", ""):
            raise text.error({
                "template": "a template inside of a struct", "~": "a destructor",
                "operator": "the conversion of a struct to another type"
            }.get(token, f"the struct {self.name!r} without its end") + " is")
        else:
            self.typed(words)

    def alias(self, token: str) -> None:
        """``typedef T U;`` and ``using U = T;`` of the struct alone."""
        text = self.text
        text.take()
        name = text.take() if token == "using" else ""
        if name:
            text.expect("=")
        found = text.typename()
        if found is None:
            raise text.error(f"a {text.peek()!r} where a type is expected is")
        text.aliases[name or text.take()] = found
        text.expect(";")

    def typed(self, words: set[str]) -> None:
        """A function, an operator, or members of one type."""
        text, type_ = self.text, self.text.typename()
        if type_ is None and text.peek() == "void":
            type_ = text.take()
        if type_ is None:
            raise text.error(f"the member {text.peek()!r} of a struct is")
        while text.peek() in ("const", "&"):
            text.take()
        if text.peek() == "operator":
            name = OPERATOR + operator_word(text)
        elif text.peek(1) != "(":
            return self.numbers(type_, words)
        else:
            plain = text.take()
            name = self.named(plain, words)
        own = "" if words & {"friend", "static"} else \
            f"{REFERENCE} {self.type} {SELF}"
        line, params = text.line(), self.parameters()
        while text.peek() in _AFTER:
            text.take()
        if text.peek() != "{":
            raise text.error(f"the function {shown_name(name)!r} of a struct without "
                             "its body (write it inside of the struct) is")
        given = ", ".join(p for p in (own, params) if p)
        self.hoist(type_, name, given, self.block(), line)
        return None

    def named(self, plain: str, words: set[str]) -> str:
        """The name of a function of the struct as one beside it."""
        if "friend" in words:
            return plain
        name = called = METHOD + plain
        if "static" in words:
            name = called = f"{STATIC}{self.name}_{plain}"
            self.text.spelling.statics[name] = self.name
        if "static" in words and self.info.params:
            called = f"{EXPLICIT}{name}"  # for the same types as the caller
            self.text.spelling.explicit[called] = name, tuple(self.info.params)
        self.info.methods[plain] = called
        return name

    def numbers(self, type_: str, words: set[str]) -> None:
        """Members of one type, with values or without."""
        text = self.text
        if words & {"static", "friend"}:
            raise text.error("a static member of a struct (write a constant of the "
                             "preamble) is")
        while True:
            pointer = text.take() if text.peek() == "*" else ""
            name = text.take()
            text.out.append(f"{type_} {pointer}{name}")
            self.fields[name] = type_ if text.peek() != "[" else ""
            while text.peek() == "[":
                text.until_closed()
            if text.peek() == "=":
                text.take()
                self.start(name, [text.respelled((",", ";"))]
                           if text.peek() != "{" else self.listed())
            elif text.peek() == "{":
                self.start(name, self.listed())
            if text.peek() != ",":
                break
            text.take()
            text.out.append(";")
        text.expect(";")
        text.out.append(";")

    def start(self, name: str, values: Sequence[str]) -> None:
        """A member is declared with a value."""
        self.defaults.append(self.assigned(name, ", ".join(values)))

    def assigned(self, name: str, values: str) -> str:
        """The statement that gives a member, or all of them, a value."""
        place, type_ = f"{SELF}.{name}", self.fields.get(name)
        if name == self.name:
            place, type_ = SELF, self.type
        made = f"{CAST}{type_}" if type_ else LIST
        return f"{place} = {made}({' '.join(values.split())});"

    def listed(self) -> list[str]:
        """The values in round or curly brackets, taken."""
        text = self.text
        closing = {"(": ")", "{": "}"}.get(text.peek())
        if closing is None:
            raise text.error(f"a {text.peek()!r} where a value is expected is")
        text.take()
        values = []
        while text.peek() != closing:
            values.append(text.respelled((",", closing)))
            if text.peek() == ",":
                text.take()
        text.take()
        return values

    def parameters(self) -> str:
        """The parameters of a function, without brackets."""
        text = self.text
        outer, text.heads = text.heads, len(text.closing) + 1
        found = text.apart(text.until_closed).strip()[1:-1]
        text.heads = outer
        return "" if found.strip() == "void" else found

    def block(self) -> str:
        """The body of a function."""
        return self.text.apart(self.text.until_closed)

    def constructor(self) -> None:
        """``P(T v) : a(v), b{0} { … }``."""
        text, line = self.text, self.text.line()
        params, starts = self.parameters(), list[tuple[str, str]]()
        self.info.constructed = True
        while text.peek() in _AFTER:
            text.take()
        if text.peek() == "=":
            text.take()
            if text.take() == "default":
                self.constructors.append((params, starts, "", line))
            return text.expect(";")
        if text.peek() == ":":
            text.take()
            while text.peek() not in ("{", ""):
                starts.append((text.take(), ", ".join(self.listed())))
                if text.peek() == ",":
                    text.take()
        if text.peek() != "{":
            raise text.error(f"a constructor of {self.name!r} without its body is")
        between = "\n" * (text.line() - line - params.count("\n"))
        self.constructors.append((params, starts, between + self.block(), line))
        return None

    def finish(self) -> None:
        """The constructors, which begin with the values of all declarations."""
        before = f"{self.type} {SELF} = {MEMBERS}{self.type}(); "
        before += " ".join(self.defaults)
        for params, starts, body, line in self.constructors:
            for name, _ in starts:
                if name != self.name and name not in self.fields:
                    raise self.text.error(f"{name!r}, which a constructor begins and "
                                          f"{self.name} does not declare, is")
            values = " ".join(self.assigned(*start) for start in starts)
            self.hoist(self.type, NEW + self.name, params,
                       f"{{ {before} {values} {body} return {SELF}; }}", line)
        if self.defaults and not self.info.constructed:
            self.hoist(self.type, DEFAULT + self.name, "",
                       f"{{ {before} return {SELF}; }}", self.text.line())

    def hoist(self, returned: str, name: str, params: str, body: str,
              line: int) -> None:
        """Keep a function that stands beside the struct."""
        text, self.info.functions = self.text, True
        text.header = dict(self.info.params) or None
        text.spelling.hoisted.append(Hoisted(
            f"{returned} {text.declared(name)}({params}) {body}", text.source, line))
