"""The base of printers of typed scalar functions: the walk, the names, memory.

A printer gives every value a text: a name, a literal, or an expression in parentheses.
Names are the source's own where it has any; temporaries that are read once stand
where they are read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import numpy as np

from ...errors import KernelTypeError
from ...support.dtypes import TYPES
from ...support.records import record
from ..ir.nodes import (
    Block,
    For,
    If,
    Let,
    Literal,
    Value,
    While,
    names,
    operands,
    regions,
    walk,
)
from ..language.formats import printed_text
from ..typing.literals import number
from ..typing.types import Typed

__all__ = ["Printer", "Raw", "bare", "suffix"]

#: Names that a builder made up; others are the user's and keep a line of their own.
_TEMPORARY = re.compile(r"(t|result)_\d+$")
_WIDTH = 60

#: What a `Raw` knows of its launch and puts in place before it is printed.
_OF_LAUNCHES = frozenset({"thread", "extent", "stride", "shared"})
#: Printed as statements by a method of their name.
_EFFECTS = frozenset({
    "atomic_add", "store", "barrier", "buffer", "buffer_store", "buffer_add", "print",
})
#: What a lane or an array gives is read where the source reads it.
_READS = frozenset({"load", "atomic", "shuffle", "buffer_load"})


@record(frozen=True)
class Raw:
    """The text of a raw array: its pointer, its strides in elements, its dtype."""

    pointer: str
    strides: tuple[str, ...]
    dtype: np.dtype

    def offset(self, indices: Sequence[str]) -> str:
        """The offset of an element, in elements."""
        terms = [i if s == "1" else f"{i} * {s}"
                 for i, s in zip(indices, self.strides, strict=True) if s != "0"]
        return " + ".join(terms) or "0"


class Printer:
    """Lines of one function; `text` is what stands for each name.

    Subclasses say how a language writes what the methods under "Language" name.

    Parameters
    ----------
    typed, arguments, prefix
        As for `statements` of a printer.
    taken
        Names that no local may have.
    """

    #: One level of indentation.
    step = "    "

    def __init__(self, typed: Typed, arguments: Mapping[str, str | Raw], prefix: str,
                 taken: Iterable[str]) -> None:
        self.dtypes, self.prefix, self.taken = typed.dtypes, prefix, set(taken)
        self.lines: list[str] = []
        self.indent = 0
        self.raw = {p: a for p, a in arguments.items() if isinstance(a, Raw)}
        self.text: dict[str, str] = {}
        self.reads = _reads(typed)
        self.constants = self.shared(typed.function.body)
        for p, a in arguments.items():
            if isinstance(a, str) and self.reads[p]:
                self.text[p] = a if a.isidentifier() else self.constant(p, a)

    def line(self, text: str) -> None:
        """Append `text` at the present depth."""
        self.lines.append(self.step * self.indent + text)

    def name(self, name: str) -> str:
        """A local variable for the value `name`."""
        local = self.local(self.prefix + name)
        while local in self.taken:
            local += "_"
        self.taken.add(local)
        return local

    def value(self, v: Value) -> str:
        """The text of `v`."""
        if isinstance(v, Literal):
            known = self.constants.get(v)
            return known or self.literal(np.dtype(v.kind), number(v))
        return self.text[v]

    def dtype(self, v: Value) -> np.dtype:
        """The dtype that `v` is computed in."""
        return np.dtype(v.kind) if isinstance(v, Literal) else self.dtypes[v]

    # Language ----------------------------------------------------------------------

    def local(self, name: str) -> str:
        """`name`, or a name like it that means nothing in the language."""
        raise NotImplementedError

    def literal(self, dtype: np.dtype, value: bool | int | float | complex) -> str:
        """A number."""
        raise NotImplementedError

    def shared(self, block: Block) -> dict[Literal, str]:
        """Constants that get a name before anything else, declared here."""
        return {}

    def decode(self, dtype: np.dtype, text: str) -> str:
        """The computing value of a stored element."""
        raise NotImplementedError

    def encode(self, dtype: np.dtype, text: str) -> str:
        """The text stored for a computing value."""
        raise NotImplementedError

    def repeats(self, op: str, dtype: np.dtype) -> bool:
        """Whether the text of `op` may repeat its operands: they must be names."""
        raise NotImplementedError

    def expression(self, s: Let) -> str:
        """An operation on numbers; it may write lines first."""
        raise NotImplementedError

    def constant(self, name: str, text: str) -> str:
        """Declare a local for the value `name`, to be assigned once; its name."""
        raise NotImplementedError

    def variable(self, name: str, text: str | None = None) -> str:
        """Declare a local to be assigned again, or later; its name."""
        raise NotImplementedError

    def move(self, targets: Sequence[str], values: Sequence[str]) -> None:
        """Assign all at once."""
        raise NotImplementedError

    def run(self, text: str) -> None:
        """An expression or assignment as a statement."""
        raise NotImplementedError

    def open_if(self, condition: str) -> None:
        """Begin a branch."""
        raise NotImplementedError

    def open_else(self) -> None:
        """Begin its other side."""
        raise NotImplementedError

    def open_for(self, index: str, count: str) -> None:
        """Begin a loop; `index` is declared by it."""
        raise NotImplementedError

    def open_while(self, condition: str) -> None:
        """Begin a loop; "" is one without end."""
        raise NotImplementedError

    def leave_unless(self, condition: str) -> None:
        """Leave the loop."""
        raise NotImplementedError

    def close(self, empty: bool) -> None:
        """End a side or a loop, which has no lines if it is `empty`."""

    def call(self, function: str, *args: str) -> str:
        """Call one of the functions that the text is given."""
        raise NotImplementedError

    def place(self, raw: Raw, offset: str) -> str:
        """The arguments that tell an atomic operation its element."""
        raise NotImplementedError

    def formatted(self, text: str, args: Sequence[str],
                  dtypes: Sequence[np.dtype]) -> str:
        """Call C's printf with the format `text`."""
        raise NotImplementedError

    def reserve(self, name: str, dtype: np.dtype, count: int) -> str:
        """Declare an array of the thread's own; its name."""
        raise NotImplementedError

    # Blocks ------------------------------------------------------------------------

    def block(self, block: Block) -> list[str]:
        """Print the statements; the texts of the yields."""
        inline = self.inlined(block)
        for s in block.statements:
            match s:
                case Let():
                    self.let(s, inline)
                case If():
                    self.branch(s)
                case For() | While():
                    self.loop(s)
        return [self.value(v) for v in block.yields]

    def inlined(self, block: Block) -> set[str]:
        """Temporaries that are read once, here, by what does not repeat them."""
        found = names(block.yields)
        for s in block.statements:
            if not (isinstance(s, Let) and s.args
                    and self.repeats(s.op, self.dtype(s.args[-1]))):
                found |= names(operands(s))
        return {v for v in found if self.reads[v] == 1 and _TEMPORARY.match(v)}

    def inside(self, block: Block, targets: Sequence[str]) -> None:
        """`block` one level deeper, its yields assigned to `targets` at once."""
        self.indent += 1
        before = len(self.lines)
        moves = [(t, y) for t, y in zip(targets, self.block(block), strict=True)
                 if t != y]
        if moves:
            self.move(*zip(*moves, strict=True))
        self.indent -= 1
        self.close(len(self.lines) == before)

    def branch(self, s: If) -> None:
        """Both sides assign the results."""
        targets = [self.variable(r) for r in s.results]
        self.open_if(bare(self.value(s.condition)))
        self.inside(s.then, targets)
        if s.orelse.statements or targets:
            self.open_else()
            self.inside(s.orelse, targets)
        self.text.update(zip(s.results, targets, strict=True))

    def loop(self, s: For | While) -> None:
        """The carried values are variables; the results are what they end as."""
        count = self.value(s.count) if isinstance(s, For) else ""
        params = [self.variable(p, self.value(v))
                  for p, v in zip(s.params, s.inits, strict=True)]
        self.text.update(zip(s.params, params, strict=True))
        if isinstance(s, For):
            self.text[s.index] = self.name(s.index)
            self.open_for(self.text[s.index], count)
        else:
            self.condition(s)
        self.inside(s.body, params)
        self.text.update(zip(s.results, params, strict=True))

    def condition(self, s: While) -> None:
        """At the head of the loop, if it is an expression."""
        lines, self.lines = self.lines, []
        self.indent += 1
        (text,) = self.block(s.condition)
        self.indent -= 1
        lines, self.lines = self.lines, lines
        if not lines:
            return self.open_while(bare(text))
        self.open_while("")
        self.lines += lines
        self.indent += 1
        self.leave_unless(text)
        self.indent -= 1
        return None

    # Operations --------------------------------------------------------------------

    def let(self, s: Let, inline: set[str]) -> None:
        """A statement, or the text of an operation's result."""
        if s.op in _OF_LAUNCHES:
            raise KernelTypeError(
                f"line {s.line}: where a thread is, shared arrays and shapes of arrays "
                "are known in @nf.rawkernel only")
        if s.op in _EFFECTS:
            return getattr(self, s.op)(s)
        text = getattr(self, s.op)(s) if s.op in _READS else self.expression(s)
        if not s.results:
            return self.run(text)
        (name,) = s.results
        if name in inline and s.op not in _READS and len(text) <= _WIDTH:
            self.text[name] = text
        else:
            self.text[name] = self.constant(name, bare(text))
        return None

    def element(self, raw: Raw, indices: Sequence[str]) -> str:
        """An element where it lies."""
        return f"{raw.pointer}[{raw.offset(indices)}]"

    def load(self, s: Let) -> str:
        """An element of an array."""
        raw = self.raw[str(s.args[0])]
        return self.decode(raw.dtype, self.element(raw, [
            self.value(v) for v in s.args[1:]]))

    def store(self, s: Let) -> None:
        """Write one."""
        raw = self.raw[str(s.args[0])]
        *indices, value = (self.value(v) for v in s.args[1:])
        self.run(f"{self.element(raw, indices)} = "
                 f"{self.encode(raw.dtype, bare(value))}")

    def atomic(self, s: Let) -> str:
        """A function of the backend, by the name of what it does and of the dtype."""
        raw = self.raw[str(s.args[0])]
        rank, args = len(raw.strides), [self.value(v) for v in s.args[1:]]
        return self.call(f"fetch_{s.attr}{suffix(raw.dtype)}",
                         self.place(raw, raw.offset(args[:rank])),
                         *map(bare, args[rank:]))

    def print(self, s: Let) -> None:
        """Write a text with numbers in it to the standard output."""
        self.run(self.formatted(printed_text(s), [bare(self.value(v)) for v in s.args],
                                [self.dtype(v) for v in s.args]))

    def shuffle(self, s: Let) -> str:
        """The text of another lane's value."""
        return self.call(f"shuffle_{s.attr}", *(bare(self.value(v)) for v in s.args))

    def buffer(self, s: Let) -> None:
        """Memory of the thread's own."""
        (name,), (size,) = s.results, s.args
        dtype = self.dtypes[name]
        count = number(size) if isinstance(size, Literal) else 0
        assert isinstance(count, int)
        local = self.text[name] = self.reserve(name, dtype, count)
        if s.attr == "zeros":
            index = self.name("z")
            self.open_for(index, str(count))
            self.indent += 1
            self.run(f"{local}[{index}] = {self.encode(dtype, self.literal(dtype, 0))}")
            self.indent -= 1
            self.close(False)

    def entry(self, s: Let) -> str:
        """An entry of it."""
        buffer, index = (self.value(v) for v in s.args[:2])
        return f"{buffer}[{bare(index)}]"

    def buffer_load(self, s: Let) -> str:
        """Read one."""
        return self.decode(self.dtype(s.args[0]), self.entry(s))

    def buffer_store(self, s: Let) -> None:
        """Write one."""
        value = self.encode(self.dtype(s.args[0]), bare(self.value(s.args[2])))
        self.run(f"{self.entry(s)} = {value}")

    def buffer_add(self, s: Let) -> None:
        """Add to one."""
        self.run(f"{self.entry(s)} += {bare(self.value(s.args[2]))}")


@lru_cache(maxsize=64)  # kernels print one function many times
def _reads(typed: Typed) -> Counter[str]:
    """The number of reads of each name."""
    block = typed.function.body
    found = Counter(v for v in block.yields if isinstance(v, str))
    for s in walk(block):
        found.update(v for v in operands(s) if isinstance(v, str))
        for region in regions(s):
            found.update(v for v in region.yields if isinstance(v, str))
    return found


def suffix(dtype: np.dtype) -> str:
    """The ending of the names of atomic operations on elements of `dtype`."""
    t = TYPES[dtype]
    return f"_{t.short}" if t.computed != dtype else ""


def bare(text: str) -> str:
    """`text` without parentheses around all of it."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for k, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0 and k < len(text) - 1:
            return text
    return text[1:-1]
