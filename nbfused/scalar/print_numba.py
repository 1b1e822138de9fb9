"""Typed scalar functions as Python statements for Numba, on the CPU and on CUDA.

The text is a sequence of assignments with no call to another compiled function, so
that a kernel is one function.  Names are the source's own where it has any.
"""

from __future__ import annotations

import keyword
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import KernelTypeError
from .formulas import expand
from .ir import (
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
from .literals import number
from .numba_text import (
    CUDA_CALLS,
    NAMES,
    Calls,
    bare,
    cast,
    decode,
    encode,
    expression,
    literal,
    power,
    repeats,
    short,
)
from .promotion import dtype_named
from .types import Typed

__all__ = [
    "CUDA_CALLS", "NAMES", "Raw", "cast", "decode", "encode", "literal", "statements",
]

#: Names that a builder made up; others are the user's and keep a line of their own.
_TEMPORARY = re.compile(r"(t|result)_\d+$")
_WIDTH = 60
#: Constants of these dtypes have a name where they are written so often.
_SHARED, _OFTEN = frozenset({"float32", "float64", "uint64"}), 4


@dataclass(frozen=True)
class Raw:
    """The text of a raw array: its pointer, its strides in elements, its dtype."""

    pointer: str
    strides: tuple[str, ...]
    dtype: np.dtype

    def offset(self, indices: Sequence[str]) -> str:
        """Of an element, in elements."""
        terms = [i if s == "1" else f"{i} * {s}"
                 for i, s in zip(indices, self.strides, strict=True) if s != "0"]
        return " + ".join(terms) or "0"


def statements(typed: Typed, arguments: Mapping[str, str | Raw],
               results: Sequence[str], *, prefix: str = "",
               calls: Calls | None = None) -> list[str]:
    """Python statements that compute a function.

    Parameters
    ----------
    typed : Typed
        What `types.specialize` made of it.
    arguments : mapping
        For each parameter that is read, the text of a value in its computing dtype,
        or a `Raw` array.  ``atomic_add(pointer, offset, value)`` must be bound where
        the function adds to one, ``f32_local(count)`` and its like where it has
        buffers.
    results : sequence of str
        Names to assign, values in the computing dtypes of ``typed.results``.
    prefix : str
        Begins every local name.
    calls : mapping, optional
        ``(operation, dtype name)`` to the name of a function to call for it.

    Returns
    -------
    list of str
        Lines without base indentation; nested blocks are indented by 4.
    """
    typed = expand(typed, calls or {})
    printer = _Printer(typed, arguments, prefix, calls or {})
    yields = printer.block(typed.function.body)
    printer.lines += [f"{name} = {bare(text)}"
                      for name, text in zip(results, yields, strict=True)]
    return printer.lines


class _Printer:
    """Lines of one function; `text` is what stands for each name."""

    def __init__(self, typed: Typed, arguments: Mapping[str, str | Raw], prefix: str,
                 calls: Calls) -> None:
        self.dtypes, self.prefix, self.calls = typed.dtypes, prefix, calls
        self.lines: list[str] = []
        self.indent = 0
        self.raw = {p: a for p, a in arguments.items() if isinstance(a, Raw)}
        self.text: dict[str, str] = {}
        self.taken = set(NAMES)
        self.reads = _reads(typed.function.body)
        self.constants = self.shared(typed.function.body)
        for p, a in arguments.items():
            if isinstance(a, str) and self.reads[p]:
                self.text[p] = a if a.isidentifier() else self.assign(p, a)

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def name(self, name: str) -> str:
        """A local variable for the value `name`."""
        local = self.prefix + name
        while local in self.taken or keyword.iskeyword(local):
            local += "_"
        self.taken.add(local)
        return local

    def assign(self, name: str, text: str) -> str:
        local = self.name(name)
        self.line(f"{local} = {text}")
        return local

    def shared(self, block: Block) -> dict[Literal, str]:
        """Names for constants that are often written: each is a call to analyse."""
        return {v: self.assign(f"{short(np.dtype(v.kind))}_{k}", self.literal(v))
                for k, (v, count) in enumerate(_constants(block).items())
                if count >= _OFTEN and v.kind in _SHARED}

    def literal(self, v: Literal) -> str:
        return literal(np.dtype(v.kind), number(v))

    def value(self, v: Value) -> str:
        if isinstance(v, Literal):
            return self.constants.get(v) or self.literal(v)
        return self.text[v]

    def dtype(self, v: Value) -> np.dtype:
        return np.dtype(v.kind) if isinstance(v, Literal) else self.dtypes[v]

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
                    and repeats(s.op, self.dtype(s.args[-1]))):
                found |= names(operands(s))
        return {v for v in found if self.reads[v] == 1 and _TEMPORARY.match(v)}

    def indented(self, block: Block, targets: Sequence[str]) -> None:
        """`block` one level deeper, its yields assigned to `targets` at once."""
        self.indent += 1
        before = len(self.lines)
        moves = [(t, y) for t, y in zip(targets, self.block(block), strict=True)
                 if t != y]
        if moves:
            left, right = (", ".join(side) for side in zip(*moves, strict=True))
            self.line(f"{left} = {right}")
        if len(self.lines) == before:
            self.line("pass")
        self.indent -= 1

    def branch(self, s: If) -> None:
        targets = [self.name(r) for r in s.results]
        self.line(f"if {bare(self.value(s.condition))}:")
        self.indented(s.then, targets)
        if s.orelse.statements or targets:
            self.line("else:")
            self.indented(s.orelse, targets)
        self.text.update(zip(s.results, targets, strict=True))

    def loop(self, s: For | While) -> None:
        """The carried values are variables; the results are what they end as."""
        count = self.value(s.count) if isinstance(s, For) else ""
        params = [self.assign(p, self.value(v))
                  for p, v in zip(s.params, s.inits, strict=True)]
        self.text.update(zip(s.params, params, strict=True))
        if isinstance(s, For):
            self.text[s.index] = self.name(s.index)
            self.line(f"for {self.text[s.index]} in range({count}):")
        else:
            self.condition(s)
        self.indented(s.body, params)
        self.text.update(zip(s.results, params, strict=True))

    def condition(self, s: While) -> None:
        """``while`` with an expression if the condition is one."""
        at = len(self.lines)
        self.indent += 1
        (text,) = self.block(s.condition)
        self.indent -= 1
        if len(self.lines) == at:
            self.line(f"while {bare(text)}:")
            return
        self.lines.insert(at, "    " * self.indent + "while True:")
        self.line(f"    if not {text}:")
        self.line("        break")

    # Operations --------------------------------------------------------------------

    def let(self, s: Let, inline: set[str]) -> None:
        effect = _EFFECTS.get(s.op)
        if effect is not None:
            return effect(self, s)
        reading = _READS.get(s.op)
        text = self.operation(s) if reading is None else reading(self, s)
        if not s.results:
            return self.line(text)
        (name,) = s.results
        if name in inline and reading is None and len(text) <= _WIDTH:
            self.text[name] = text
        else:
            self.text[name] = self.assign(name, bare(text))
        return None

    def operation(self, s: Let) -> str:
        if s.op in _OF_LAUNCHES:
            raise KernelTypeError(
                f"line {s.line}: where a thread is, shared arrays and shapes of arrays "
                "are known in @nf.rawkernel only")
        args = [self.value(v) for v in s.args]
        dtype = self.dtype(s.args[-1])
        if s.op == "cast":
            return cast(dtype, dtype_named(str(s.attr)), args[0])
        if s.op == "powi":
            return self.power(s, args)
        return expression(s.op, dtype, args, s.args, self.calls)

    def power(self, s: Let, args: list[str]) -> str:
        dtype, exponent = self.dtype(s.args[0]), s.args[1]
        if (s.op, dtype.name) in self.calls:
            return expression(s.op, dtype, args, s.args, self.calls)
        assert isinstance(exponent, Literal)
        lines, text = power(dtype, args[0], int(exponent.text), self.name)
        for line in lines:
            self.line(line)
        return text

    def load(self, s: Let) -> str:
        raw = self.raw[str(s.args[0])]
        offset = raw.offset([self.value(v) for v in s.args[1:]])
        return decode(raw.dtype, f"{raw.pointer}[{offset}]")

    def atomic_add(self, s: Let) -> None:
        raw = self.raw[str(s.args[0])]
        *indices, value = (self.value(v) for v in s.args[1:])
        function = self.calls.get(("atomic_add", raw.dtype.name), "atomic_add")
        self.line(f"{function}({raw.pointer}, {raw.offset(indices)}, {value})")

    def store(self, s: Let) -> None:
        raw = self.raw[str(s.args[0])]
        *indices, value = (self.value(v) for v in s.args[1:])
        self.line(f"{raw.pointer}[{raw.offset(indices)}] = "
                  f"{encode(raw.dtype, bare(value))}")

    def atomic(self, s: Let) -> str:
        """A function of the backend, by the name of what it does and of the dtype."""
        raw = self.raw[str(s.args[0])]
        rank, args = len(raw.strides), [self.value(v) for v in s.args[1:]]
        place = f"{raw.pointer}, {raw.offset(args[:rank])}"
        suffix = {"float16": "_f16", "bfloat16": "_bf16"}.get(raw.dtype.name, "")
        return f"fetch_{s.attr}{suffix}({place}, {', '.join(map(bare, args[rank:]))})"

    def barrier(self, s: Let) -> None:
        self.line("cuda.syncwarp()" if s.attr == "warp" else "cuda.syncthreads()")

    def shuffle(self, s: Let) -> str:
        value, lane = (self.value(v) for v in s.args)
        return f"shuffle_{s.attr}({bare(value)}, {bare(lane)})"


    def buffer(self, s: Let) -> None:
        (name,), (size,) = s.results, s.args
        dtype = self.dtypes[name]
        count = number(size) if isinstance(size, Literal) else 0
        local = self.assign(name, f"{short(dtype)}_local({count})")
        self.text[name] = local
        if s.attr == "zeros":
            index = self.name("z")
            self.line(f"for {index} in range({count}):")
            self.line(f"    {local}[{index}] = {encode(dtype, literal(dtype, 0))}")

    def entry(self, s: Let) -> str:
        buffer, index = (self.value(v) for v in s.args[:2])
        return f"{buffer}[{bare(index)}]"

    def buffer_load(self, s: Let) -> str:
        return decode(self.dtype(s.args[0]), self.entry(s))

    def buffer_store(self, s: Let) -> None:
        value = encode(self.dtype(s.args[0]), bare(self.value(s.args[2])))
        self.line(f"{self.entry(s)} = {value}")

    def buffer_add(self, s: Let) -> None:
        self.line(f"{self.entry(s)} += {bare(self.value(s.args[2]))}")


#: What a `Raw` knows of its launch and puts in place before it is printed.
_OF_LAUNCHES = frozenset({"thread", "extent", "shared"})

#: How statements without a result are printed, and what a lane or an array gives.
_EFFECTS: Mapping[str, Callable[[_Printer, Let], None]] = {
    "atomic_add": _Printer.atomic_add, "store": _Printer.store,
    "barrier": _Printer.barrier, "buffer": _Printer.buffer,
    "buffer_store": _Printer.buffer_store, "buffer_add": _Printer.buffer_add,
}
_READS: Mapping[str, Callable[[_Printer, Let], str]] = {
    "load": _Printer.load, "atomic": _Printer.atomic, "shuffle": _Printer.shuffle,
    "buffer_load": _Printer.buffer_load,
}


def _constants(block: Block) -> Counter[Literal]:
    """How often each constant is an operand, in `block` and inside it."""
    return Counter(v for s in walk(block) if isinstance(s, Let)
                   for v in s.args if isinstance(v, Literal))


def _reads(block: Block) -> Counter[str]:
    """How often each name is read, in `block` and inside it."""
    found = Counter(v for v in block.yields if isinstance(v, str))
    for s in walk(block):
        found.update(v for v in operands(s) if isinstance(v, str))
        for region in regions(s):
            found.update(v for v in region.yields if isinstance(v, str))
    return found

