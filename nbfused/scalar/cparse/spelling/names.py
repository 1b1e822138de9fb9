"""Names that the texts of one kernel declare: types, templates, macros, lambdas."""

from __future__ import annotations

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
    "EXPLICIT",
    "LIMIT",
    "REFERENCE",
    "TRAIT",
    "Captures",
    "Spelling",
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
class Spelling:
    """Names that mean something in the texts of one kernel.

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
    defined: set[str] = field(default_factory=set)
    explicit: dict[str, tuple[str, tuple[str | None, ...]]] = field(
        default_factory=dict)
    conditional: dict[str, tuple[str, str, str, str]] = field(default_factory=dict)
    traits: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    captures: dict[str, Captures] = field(default_factory=dict)
    lambdas: dict[str, list[str]] = field(default_factory=dict)
