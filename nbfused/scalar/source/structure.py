"""Values that are no single number: arrays, tuples, structs, local arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from ...support.records import record
from ..ir.nodes import Literal, Value, literal
from ..language.composite import COMPOSITES
from ..printing.identifiers import identifier
from ..typing.python_numbers import plain_number
from .static import known_value

__all__ = ["Array", "Local", "Mutable", "Parameters", "Records", "Struct",
           "Values", "Vector",
           "fill", "flat_parameters", "immutable", "leaves", "locals_in", "numbered",
           "rebuild"]

#: A value, or a tree of values: tuples, structs and local arrays of them.
Values = Any


@record(frozen=True)
class Array:
    """A parameter that is an array, which the function indexes itself.

    Attributes
    ----------
    rank
        The number of its axes; None where that is not known.
    alone
        In the rule of a kernel, an array that came without a derivative: its ``primal``
        is itself, its ``derivative`` reads as 0 and ignores what is written.
    kind
        The composite number that an element is, ``"vec3"``, along the last axes; empty
        where it is a number.
    """

    rank: int | None = None
    alone: bool = False
    kind: str = ""


class Struct(tuple[Any, ...]):
    """Values that have names: read as ``p.x``, ``p["x"]`` and ``p[0]``."""

    names: tuple[str, ...]

    def __new__(cls, names: Iterable[str], values: Iterable[Any]) -> Struct:
        """The values in the order of their names."""
        made = super().__new__(cls, values)
        made.names = tuple(names)
        return made

    def with_parts(self, parts: Iterable[Any]) -> Struct:
        """Other values under the same names."""
        return type(self)(self.names, parts)


class Mutable(Struct):
    """A struct of the function's own: assigning a field makes another one."""


class Records(Struct):
    """Arrays of as many elements: one for each field of an array of structs."""


class Vector(Struct):
    """The components of a vector, a matrix or a quaternion.

    Attributes
    ----------
    kind
        The name of its class, ``"vec3"``, which says how to compute with it.
    """

    kind: str

    def __new__(cls, kind: str, values: Iterable[Any]) -> Vector:
        """The components in the order of the fields of the class."""
        made: Any = super().__new__(cls, COMPOSITES[kind]._fields, values)
        made.kind = kind
        found: Vector = made
        return found

    def with_parts(self, parts: Iterable[Any]) -> Vector:
        """Other components."""
        return Vector(self.kind, parts)

    def __eq__(self, other: object) -> bool:
        """True if kinds and components are equal."""
        return isinstance(other, Vector) and self.kind == other.kind and \
            super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.kind, *self))


class Local(tuple[Any, ...]):
    """An array of the function's own; assigning an element makes another tuple."""


def rebuild(like: tuple[Any, ...], parts: Iterable[Any]) -> tuple[Any, ...]:
    """`parts` as a tuple of the kind of `like`."""
    if isinstance(like, Struct):
        return like.with_parts(parts)
    return Local(parts) if isinstance(like, Local) else tuple(parts)


def leaves(values: Values) -> list[Value]:
    """The single values in a tree of tuples, from left to right."""
    if not isinstance(values, tuple):
        return [values]
    return [leaf for v in values for leaf in leaves(v)]


def numbered(values: Values, start: int) -> tuple[Values, int]:
    """`values` with each leaf replaced by its number, from `start` on."""
    if not isinstance(values, tuple):
        return start, start + 1
    parts = []
    for v in values:
        part, start = numbered(v, start)
        parts.append(part)
    return rebuild(values, parts), start


def fill(shape: Values, results: Sequence[Value]) -> Values:
    """`shape` with every integer replaced by the result of that number."""
    if isinstance(shape, tuple):
        return rebuild(shape, (fill(s, results) for s in shape))
    return results[shape] if isinstance(shape, int) else shape


def immutable(values: Values) -> Values:
    """`values` as a caller lends them: not to be changed."""
    if not isinstance(values, tuple):
        return values
    parts = tuple(map(immutable, values))
    if isinstance(values, Mutable):
        return Struct(values.names, parts)
    return parts if isinstance(values, Local) else rebuild(values, parts)


def locals_in(values: Values) -> Iterator[Local | Mutable]:
    """Every local array and every struct of the function's own in a tree."""
    if isinstance(values, (Local, Mutable)):
        yield values
    for v in values if isinstance(values, tuple) else ():
        yield from locals_in(v)


@record
class Parameters:
    """The parameters of a function, taken apart.

    Attributes
    ----------
    names
        Of the numbers and arrays, in order.
    values
        For each parameter, the tree of these names and of literals.
    arrays
        The rank of each name that is an array.
    alone
        What stands for the derivative of each array that came without one.
    kinds
        What the elements of arrays are that are no numbers.
    """

    names: tuple[str, ...]
    values: dict[str, Values]
    arrays: dict[str, int | None]
    alone: dict[str, str] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)


def flat_parameters(params: Sequence[str],
                    given: Mapping[str, Any] | None) -> Parameters:
    """Take the parameters `params` apart into the numbers and arrays of `given`.

    Parameters
    ----------
    params
        The names of the parameters.
    given
        For a parameter, None for a number, an `Array`, a number that is known now, or
        a tuple or `Struct` of these; numbers where it is left out.  Without a mapping
        each parameter is a number or an array, as it is used.
    """
    if given is None:
        return Parameters(tuple(params), {p: p for p in params}, dict.fromkeys(params))
    flat = _Flat(params)
    values = {p: flat.visit(p, given.get(p), (p,)) for p in params}
    return Parameters(tuple(flat.names), values, flat.arrays, flat.alone, flat.kinds)


class _Flat:
    def __init__(self, taken: Iterable[str]) -> None:
        self.taken = set(taken)
        self.names: list[str] = []
        self.arrays: dict[str, int | None] = {}
        self.alone: dict[str, str] = {}
        self.kinds: dict[str, str] = {}

    def visit(self, param: str, given: Any, path: tuple[str, ...]) -> Values:
        given = plain_number(known_value(given))
        if isinstance(given, Literal):
            return given
        if type(given) in (bool, int, float, complex):
            return literal(given)
        if isinstance(given, tuple):
            parts = given.names if isinstance(given, Struct) else map(str, range(
                len(given)))
            return rebuild(given, [self.visit(param, g, (*path, n))
                                   for n, g in zip(parts, given, strict=True)])
        name = param if len(path) == 1 else self.fresh("_".join(path))
        self.names.append(name)
        if isinstance(given, Array):
            self.arrays[name] = given.rank
            if given.kind:
                self.kinds[name] = given.kind
            if given.alone:
                self.alone[name] = f"{name}.derivative"
                self.arrays[self.alone[name]] = given.rank
        return name

    def fresh(self, name: str) -> str:
        name = identifier(name)
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name
