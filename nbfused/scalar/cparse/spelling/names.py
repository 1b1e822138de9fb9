"""Names that the texts of one kernel declare: types, templates, macros, lambdas."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field

from ....support.records import record
from ...source.definitions import Source
from ..types import ALIASES
from .preprocessor import Macro

__all__ = [
    "AUTO",
    "BITS",
    "CAST",
    "CUDA",
    "DEFAULT",
    "EXPLICIT",
    "LIMIT",
    "LIST",
    "MEMBERS",
    "METHOD",
    "NEW",
    "OPERATOR",
    "OPERATORS",
    "REFERENCE",
    "SELF",
    "STATIC",
    "TEMPLATE",
    "TRAIT",
    "Captures",
    "Hoisted",
    "Spelling",
    "Struct",
    "plain_name",
    "shown_name",
]

#: The prefix of the call that a cast is respelled as, the same of numeric limits and of
#: calls with template arguments, the type of ``auto x = …``, the qualifier of ``T& x``.
CAST, LIMIT, EXPLICIT, AUTO = "__cast_", "__limit_", "__explicit_", "__auto"
REFERENCE = "volatile"
#: The prefix of the call that ``std::bit_cast<T>`` is respelled as.
BITS = "__bit_cast_"
#: The prefix of the constant that a question about types is respelled as.
TRAIT = "__trait_"
#: The prefix of functions of CUDA's that are written in C.
CUDA = "__cuda_"
#: The prefix of a definition that is a template, before a number and its name.
TEMPLATE = "__template_"
#: The prefixes of what structs declare: functions, static ones, operators,
#: constructors, what makes one of the values of its declarations, and of the call that
#: makes one of zeros.
METHOD, STATIC, OPERATOR, NEW = "__method_", "__static_", "__operator_", "__new_"
DEFAULT, MEMBERS = "__default_", "__members_"
#: The struct that its functions are called of, and the call that ``return {a, b}`` is.
SELF, LIST = "__self", "__list"
#: Operators that structs may define, by the word that stands for each.
OPERATORS = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "%": "mod", "&": "and", "|": "or",
    "^": "xor", "<<": "lshift", ">>": "rshift", "==": "eq", "!=": "ne", "<": "lt",
    "<=": "le", ">": "gt", ">=": "ge", "!": "not", "~": "invert", "()": "call",
    "[]": "index",
}
OPERATORS |= {f"{mark}=": f"i{OPERATORS[mark]}" for mark in (
    "+", "-", "*", "/", "%", "&", "|", "^")}
_MARKS = {word: mark for mark, word in OPERATORS.items()}
_PREFIX = re.compile(rf"{TEMPLATE}\d+_")


def plain_name(name: str) -> str:
    """The name of a function, without what says that it is a template."""
    return _PREFIX.sub("", name)


def shown_name(name: str) -> str:
    """The name of a function as C++ has it."""
    for prefix in (METHOD, CUDA, NEW, DEFAULT):
        name = name.removeprefix(prefix)
    if name.startswith(OPERATOR):
        return f"operator{_MARKS[name.removeprefix(OPERATOR)]}"
    return name


@record(frozen=True)
class Captures:
    """A lambda, and the variables around it that it sees.

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
class Struct:
    """A struct of a text.

    Attributes
    ----------
    params
        Of its template, as in `Spelling.templates`; empty if it is none.
    methods
        Its functions by their names: what a call of them inside of the struct is of.
    constructed
        Whether it has constructors.
    functions
        Whether it has any functions.
    """

    params: Mapping[str, str | None]
    methods: dict[str, str] = field(default_factory=dict)
    constructed: bool = False
    functions: bool = False


@record(frozen=True)
class Hoisted:
    """A function of a struct, as one that stands beside it, and where it is from."""

    text: str
    source: Source
    line: int


@record
class Spelling:
    """Names that mean something in the texts of one kernel.

    Attributes
    ----------
    types
        Names of types: dtypes', C's, the placeholders, those of templates.
    macros
        What ``#define`` defines, by name.
    templates
        For each definition of a function that is a template, its parameters by their
        names: None for a type, the type of an integer.
    structs
        The structs by their names.
    instances
        For the name of a type such as ``P<T>``, the struct and the names of the types.
    hoisted
        The functions of structs.
    statics
        The structs of static functions by the names of these.
    defined
        Names of types that a ``typedef`` of the text defines.
    explicit
        For the name of a call with template arguments, the function and its arguments:
        the names of types; None for an integer, which is the call's first argument.
    conditional
        For the name of a type that depends on others: two that may be the same, the
        type if they are, the type if they are not.
    traits
        For the name of a constant, the question about types that it answers, and the
        names of these.
    captures
        The lambdas by the names of their functions.
    lambdas
        For the name of a variable, the functions of the lambdas that it may be.
    """

    types: set[str] = field(default_factory=lambda: {*ALIASES, AUTO})
    macros: dict[str, Macro] = field(default_factory=dict)
    templates: dict[str, dict[str, str | None]] = field(default_factory=dict)
    structs: dict[str, Struct] = field(default_factory=dict)
    instances: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    hoisted: list[Hoisted] = field(default_factory=list)
    statics: dict[str, str] = field(default_factory=dict)
    defined: set[str] = field(default_factory=set)
    explicit: dict[str, tuple[str, tuple[str | None, ...]]] = field(
        default_factory=dict)
    conditional: dict[str, tuple[str, str, str, str]] = field(default_factory=dict)
    traits: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    captures: dict[str, Captures] = field(default_factory=dict)
    lambdas: dict[str, list[str]] = field(default_factory=dict)
