"""The intermediate representation of a scalar function: structured SSA.

A `Function` is a tree of blocks.  Every name is assigned once; control flow is
`If`, `For` and `While`, whose blocks *yield* the values that leave them; `Custom` is a
call with a derivative of its own.  Nothing here knows a dtype: a function is
polymorphic until `types.specialize` binds it.
All records are frozen and hashable, so that a spec that holds one can key a cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...errors import DefinitionError
from ...support.records import record
from ..printing.identifiers import identifier, is_identifier, is_safe

__all__ = [
    "ACCESSES", "BUFFER_WRITES", "EFFECTS", "UNFOLDED", "WRITES", "Block", "Custom",
    "For", "Function", "If", "Let", "Literal", "Origin", "Statement", "Value", "While",
    "array_args", "at_line", "defined", "drop_params", "literal", "names", "operands",
    "raw_params", "read", "regions", "rename", "rewrite", "substitute", "used_params",
    "walk", "with_regions",
]

#: Operations that must run although nobody reads a result of theirs.
EFFECTS = frozenset({"atomic", "atomic_add", "barrier", "print", "store"})
#: Operations whose first operand is a raw array.
ACCESSES = frozenset({"atomic", "atomic_add", "extent", "load", "store", "stride"})
#: Effects on thread-local memory: they matter if somebody loads from that.
BUFFER_WRITES = frozenset({"buffer_add", "buffer_store"})
#: All that write to memory: their operand is the last.
WRITES = EFFECTS - {"barrier", "print"} | BUFFER_WRITES
#: What a cast makes of an integer literal that is to be typed as a parameter is: no
#: result is computed early, nor the number refused because it does not fit.
UNFOLDED = "unfolded"


@record(frozen=True)
class Literal:
    """A number written in the source; `True`, `1`, `1.0` and `-0.0` all differ.

    `kind` is a Python type's name or, in a typed function, a dtype's.
    """

    kind: str
    text: str

    @property
    def value(self) -> bool | int | float | complex:
        """The Python number."""
        return _PARSERS[self.kind.rstrip("0123456789")](self.text)


_PARSERS: dict[str, Callable[[str], bool | int | float | complex]] = {
    "bool": "True".__eq__, "int": int, "uint": int, "float": float, "bfloat": float,
    "complex": complex,
}


def literal(number: bool | int | float | complex) -> Literal:
    """Wrap a Python number."""
    return Literal(type(number).__name__, repr(number))


#: An SSA name, or a number.
Value = str | Literal


@record(frozen=True)
class Block:
    """Statements in order and the values that the region yields."""

    statements: tuple[Statement, ...]
    yields: tuple[Value, ...]


@record(frozen=True)
class Let:
    """``results = op(*args)``; `attr` is what is not a value (a dtype, say)."""

    results: tuple[str, ...]
    op: str
    args: tuple[Value, ...]
    attr: str | None = None
    line: int = field(default=0, compare=False)


@record(frozen=True)
class If:
    """``results`` are the yields of the branch that ran."""

    results: tuple[str, ...]
    condition: Value
    then: Block
    orelse: Block


@record(frozen=True)
class For:
    """`count` iterations, `index` from 0; `params` carry `inits`, then the yields.

    `max_iters` and `prefer`, here and in `While`, say what a derivative records, and
    nothing that a result depends on: how often the user expects the loop to iterate,
    and whether to record much; 0 and "" where nothing was said.
    """

    results: tuple[str, ...]
    index: str
    count: Value
    params: tuple[str, ...]
    inits: tuple[Value, ...]
    body: Block
    max_iters: int = 0
    prefer: str = ""


@record(frozen=True)
class While:
    """Iterates while `condition`, a block over `params` with one yield, is true."""

    results: tuple[str, ...]
    params: tuple[str, ...]
    inits: tuple[Value, ...]
    condition: Block
    body: Block
    max_iters: int = 0
    prefer: str = ""


@record(frozen=True)
class Custom:
    """``results = function(*args)``, differentiated by rules of its own.

    ``vjp(*args, *cotangents)``, a cotangent for each result, gives the cotangents of
    the arguments that are no raw arrays.  ``jvp(*args, *tangents)``, a tangent for each
    such argument, or for each at all, gives those of the results.  One of the two may
    be missing.  Inside a rule of `function`, `recursive` marks a call of `function`
    itself: `rules` gives it the same rules when the rule is used.
    """

    results: tuple[str, ...]
    function: Function
    args: tuple[Value, ...]
    vjp: Function | None = None
    jvp: Function | None = None
    line: int = field(default=0, compare=False)
    recursive: bool = False


Statement = Let | If | For | While | Custom


@record(frozen=True)
class Origin:
    """A function whose results are cotangents of parameters of `primal`.

    `wanted` has the parameter for each of its results, `cotangents` the name of its
    parameter for each result of `primal`, None where that is taken to be zero.
    """

    primal: Function
    wanted: tuple[str, ...]
    cotangents: tuple[str | None, ...]


@dataclass(frozen=True)
class Function:
    """A scalar function: `body.yields` are its results.

    `pyfile` and `line` say where it came from, for messages only; `origin` of what it
    is the gradient, if it is one; `shape` the tree of its results, by their numbers.
    """

    name: str
    params: tuple[str, ...]
    body: Block
    pyfile: str = field(default="", compare=False)
    line: int = field(default=0, compare=False)
    origin: Origin | None = field(default=None, compare=False, repr=False)
    shape: Any = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse names that are no identifiers, since they are printed."""
        if not is_identifier(self.name):
            object.__setattr__(self, "name", identifier(self.name))
        for p in self.params:
            if not is_safe(p):
                raise DefinitionError(f"{self.name}: the parameter {p!r} is no "
                                      "identifier; name it by letters and digits")

    @property
    def results(self) -> tuple[Value, ...]:
        """The results, as values of its body."""
        return self.body.yields


def regions(statement: Statement) -> tuple[Block, ...]:
    """The blocks directly inside `statement`."""
    match statement:
        case If():
            return (statement.then, statement.orelse)
        case For():
            return (statement.body,)
        case While():
            return (statement.condition, statement.body)
        case _:
            return ()


def operands(statement: Statement) -> tuple[Value, ...]:
    """The values that `statement` itself reads, its regions left out."""
    match statement:
        case Let() | Custom():
            return statement.args
        case If():
            return (statement.condition,)
        case For():
            return (statement.count, *statement.inits)
        case While():
            return statement.inits
    raise TypeError(statement)


def walk(block: Block) -> Iterator[Statement]:
    """Every statement of `block`, outer before inner."""
    for statement in block.statements:
        yield statement
        for region in regions(statement):
            yield from walk(region)


def names(values: Iterable[Value]) -> set[str]:
    """The SSA names among `values`."""
    return {v for v in values if isinstance(v, str)}


def defined(block: Block) -> set[str]:
    """Every name that is assigned anywhere in `block`."""
    found: set[str] = set()
    for s in walk(block):
        found.update(s.results)
        if isinstance(s, For):
            found.add(s.index)
        if isinstance(s, (For, While)):
            found.update(s.params)
    return found


def read(block: Block) -> set[str]:
    """Every name that is read anywhere in `block`."""
    found = names(block.yields)
    for s in walk(block):
        found |= names(operands(s))
        for region in regions(s):
            found |= names(region.yields)
    return found


def raw_params(function: Function) -> set[str]:
    """The parameters that are arrays, which the function indexes itself."""
    found: set[str] = set()
    for s in walk(function.body):
        if isinstance(s, Let) and s.op in ACCESSES:
            found.add(str(s.args[0]))
        elif isinstance(s, Custom):
            arrays = array_args(s)
            found |= names(a for a, raw in zip(s.args, arrays, strict=True) if raw)
    return found.intersection(function.params)


def array_args(s: Custom) -> tuple[bool, ...]:
    """Whether the function or one of its rules takes an array, for each argument."""
    given = [f for f in (s.function, s.vjp, s.jvp) if f is not None]
    arrays = [raw_params(f) for f in given]
    return tuple(any(f.params[k] in raw for f, raw in zip(given, arrays, strict=True))
                 for k in range(len(s.args)))


def used_params(function: Function) -> tuple[bool, ...]:
    """Whether the body reads a parameter, for each of them."""
    used = read(function.body)
    return tuple(p in used for p in function.params)


def drop_params(function: Function, keep: tuple[bool, ...]) -> Function:
    """The same function without the parameters that `keep` marks False."""
    kept = tuple(p for p, k in zip(function.params, keep, strict=True) if k)
    return replace(function, params=kept)


def substitute(block: Block, value: Callable[[Value], Value],
               name: Callable[[str], str] = lambda n: n) -> Block:
    """Replace every value read by ``value(v)`` and every name bound by ``name(n)``."""

    def values(vs: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple(value(v) for v in vs)

    def bound(ns: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name(n) for n in ns)

    def visit(s: Statement) -> Statement:
        match s:
            case Let() | Custom():
                return replace(s, results=bound(s.results), args=values(s.args))
            case If():
                return If(bound(s.results), value(s.condition), inside(s.then),
                          inside(s.orelse))
            case For():
                return replace(
                    s, results=bound(s.results), index=name(s.index),
                    count=value(s.count), params=bound(s.params),
                    inits=values(s.inits), body=inside(s.body))
            case While():
                return replace(
                    s, results=bound(s.results), params=bound(s.params),
                    inits=values(s.inits), condition=inside(s.condition),
                    body=inside(s.body))
        raise TypeError(s)

    def inside(b: Block) -> Block:
        return Block(tuple(visit(s) for s in b.statements), values(b.yields))

    return inside(block)


def with_regions(s: Statement, change: Callable[[Block], Block]) -> Statement:
    """`s` with what ``change(b)`` gives in place of each block inside it, if any."""
    match s:
        case If():
            return replace(s, then=change(s.then), orelse=change(s.orelse))
        case For():
            return replace(s, body=change(s.body))
        case While():
            return replace(s, condition=change(s.condition), body=change(s.body))
    return s


def rewrite(block: Block, change: Callable[[Let], Iterable[Statement]]) -> Block:
    """`block` with what ``change(s)`` gives in place of each operation, also inside."""

    def inside(b: Block) -> Block:
        return rewrite(b, change)

    found: list[Statement] = []
    for s in block.statements:
        found += change(s) if isinstance(s, Let) else [with_regions(s, inside)]
    return Block(tuple(found), block.yields)


def at_line(block: Block, line: int) -> Block:
    """`block` as if all of it stood in one line: that of a call in another file."""

    def called(f: Function) -> Function:
        return replace(f, body=at_line(f.body, line))

    def visit(s: Statement) -> Statement:
        match s:
            case Let():
                return replace(s, line=line)
            case Custom():
                return replace(s, line=line, function=called(s.function),
                               vjp=s.vjp and called(s.vjp), jvp=s.jvp and called(s.jvp))
        return with_regions(s, lambda b: at_line(b, line))

    return replace(block, statements=tuple(visit(s) for s in block.statements))


def rename(block: Block, mapping: Mapping[str, Value],
           fresh: Callable[[str], str]) -> Block:
    """`block` with its free names mapped and every name it binds made fresh."""
    table: dict[str, Value] = dict(mapping)
    for n in sorted(defined(block)):
        table[n] = fresh(n)

    def value(v: Value) -> Value:
        return table.get(v, v) if isinstance(v, str) else v

    return substitute(block, value, lambda n: str(table.get(n, n)))
