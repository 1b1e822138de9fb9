"""Scalar functions as text of the scalar language, which can be parsed again.

Temporaries that are used once are written where they are used, so that the text reads
like what a person would write.
"""

from __future__ import annotations

import keyword
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ..ir.build import inline
from ..ir.clean import IMPURE, clean
from ..ir.nodes import (
    Block,
    For,
    Function,
    If,
    Let,
    Literal,
    Statement,
    Value,
    While,
    defined,
    names,
    operands,
    regions,
    walk,
)
from ..language.formats import printed_text, python_format
from ..language.vocabulary import NUMPY, OPS

__all__ = ["python_text"]

_TEMPORARY = re.compile(r"(t|result)_\d+$")
_WIDTH = 88
_RESERVED = frozenset({*keyword.kwlist, "nf", "np", "range", "abs", "max", "min", "int",
                       "float", "bool"})
_SHUFFLES = {"idx": "shfl_sync", "up": "shfl_up_sync", "down": "shfl_down_sync",
             "xor": "shfl_xor_sync"}


def python_text(function: Function) -> str:
    """The definition of `function` in the scalar language.

    Parameters
    ----------
    function : Function
        Functions with rules of their own are written out.

    Returns
    -------
    str
        Refers to ``nf`` (nbfused) and ``np`` (NumPy).
    """
    return _Printer(clean(inline(function))).text()


class _Printer:
    def __init__(self, function: Function) -> None:
        self.function = function
        self.lines: list[str] = []
        self.depth = 1
        self.names: dict[str, str] = {}
        self.pending: dict[str, str] = {}
        self.taken: set[str] = set()
        self.uses = Counter(_reads(function.body))
        for p in function.params:
            self.bind(p)

    def text(self) -> str:
        """The whole definition."""
        f = self.function
        self.block(f.body)
        if f.results:
            self.line("return " + ", ".join(self.bare(v) for v in f.results))
        elif not self.lines:
            self.line("pass")
        head = f"def {f.name}({', '.join(self.names[p] for p in f.params)}):"
        return "\n".join([head, *self.lines, ""])

    # Lines and names ---------------------------------------------------------------

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def inside(self, head: str) -> Iterator[None]:
        """An indented block; ``pass`` where nothing is in it."""
        self.line(head)
        count = len(self.lines)
        self.depth += 1
        yield
        if len(self.lines) == count:
            self.line("pass")
        self.depth -= 1

    def bind(self, name: str) -> str:
        """The variable for an SSA name: its stem, if that is free."""
        text = name.strip(".")
        while text in _RESERVED or text in self.taken:
            text += "_"
        self.taken.add(text)
        self.names[name] = text
        return text

    def value(self, v: Value) -> str:
        """A value, in parentheses where it is an expression."""
        if isinstance(v, Literal):
            return _number(v)
        if v in self.pending:
            text = self.pending[v]
            return text if re.fullmatch(r"[\w.]+(\([^()]*\))?", text) else f"({text})"
        return self.names[v]

    def bare(self, v: Value) -> str:
        """A value that stands alone."""
        return self.pending[v] if isinstance(v, str) and v in self.pending else \
            self.value(v)

    # Statements --------------------------------------------------------------------

    def block(self, block: Block) -> None:
        """The statements of a block."""
        here = _direct(block)
        for s in block.statements:
            match s:
                case Let():
                    self.let(s, bool(here.intersection(s.results)))
                case If():
                    self.branch(s)
                case For():
                    self.count(s)
                case While():
                    self.loop(s)

    def let(self, s: Let, direct: bool) -> None:
        """An operation: in a line of its own, or where it is used."""
        if not s.results:
            return self.line(self.effect(s))
        (name,), text = s.results, self.expression(s)
        once = direct and self.uses[name] == 1 and _TEMPORARY.match(name)
        if once and s.op not in IMPURE and len(text) < _WIDTH // 2:
            self.pending[name] = text
        else:
            self.line(f"{self.bind(name)} = {text}")
        return None

    def assign(self, targets: Sequence[str], values: Sequence[Value]) -> None:
        """All at once."""
        pairs = [(t, self.bare(v)) for t, v in zip(targets, values, strict=True)]
        pairs = [(t, v) for t, v in pairs if t != v]
        if pairs:
            self.line(f"{', '.join(t for t, _ in pairs)} = "
                      f"{', '.join(v for _, v in pairs)}")

    def branch(self, s: If, targets: Sequence[str] | None = None,
               word: str = "if") -> None:
        """``if`` and ``else``, each of which assigns the results."""
        test = self.bare(s.condition)
        if targets is None:
            targets = [self.bind(r) for r in s.results]
        with self.inside(f"{word} {test}:"):
            self.block(s.then)
            self.assign(targets, s.then.yields)
        if s.orelse.statements or s.orelse.yields:
            self.orelse(s.orelse, targets)

    def orelse(self, block: Block, targets: Sequence[str]) -> None:
        """``else``, or ``elif`` where it holds nothing but a branch."""
        last = block.statements[-1] if block.statements else None
        chained = isinstance(last, If) and last.results == block.yields
        if isinstance(last, If) and chained:
            count, taken = len(self.lines), set(self.taken)
            self.block(Block(block.statements[:-1], (*last.results, last.condition)))
            if len(self.lines) == count:
                return self.branch(last, targets, "elif")
            del self.lines[count:]
            self.taken = taken
        with self.inside("else:"):
            self.block(block)
            self.assign(targets, block.yields)
        return None

    def start(self, s: For | While) -> list[str]:
        """Assign what a loop carries; its results are the same variables."""
        targets = [self.bind(p) for p in s.params]
        self.assign(targets, s.inits)
        self.names.update(zip(s.results, targets, strict=True))
        return targets

    def count(self, s: For) -> None:
        """``for``; the count is not negative."""
        head = f"in {_hinted(f'range({self.bare(s.count)})', s.max_iters)}:"
        targets = self.start(s)
        with self.inside(f"for {self.bind(s.index)} {head}"):
            self.block(s.body)
            self.assign(targets, s.body.yields)

    def loop(self, s: While) -> None:
        """``while``, with ``break`` where the condition takes lines of its own."""
        targets = self.start(s)
        (condition,) = s.condition.yields
        with self.inside(f"while {_hinted('True', s.max_iters)}:"):
            count = len(self.lines)
            self.block(s.condition)
            if len(self.lines) == count:
                self.lines[-1] = "    " * (self.depth - 1) + \
                    f"while {_hinted(self.bare(condition), s.max_iters)}:"
            else:
                with self.inside(f"if not {self.value(condition)}:"):
                    self.line("break")
            self.block(s.body)
            self.assign(targets, s.body.yields)

    # Operations --------------------------------------------------------------------

    def at(self, s: Let, values: int) -> str:
        """The element that an access is about."""
        array, *index = s.args[:len(s.args) - values]
        where = ", ".join(self.bare(i) for i in index)
        return f"{self.value(array)}[{where}]"

    def effect(self, s: Let) -> str:
        """An operation that has no result."""
        args = ", ".join(self.bare(a) for a in s.args)
        match s.op:
            case "store" if s.attr == "once":
                array, *rest = s.args
                return (f"{self.value(array)}.store_once("
                        f"{', '.join(map(self.bare, rest))})")
            case "store" | "buffer_store":
                return f"{self.at(s, 1)} = {self.bare(s.args[-1])}"
            case "buffer_add":
                return f"{self.at(s, 1)} += {self.bare(s.args[-1])}"
            case "print":
                text = python_format(printed_text(s))
                return f"print({text!r} % ({args}{',' * bool(s.args)}), end='')"
            case "barrier":
                return "nf.syncwarp()" if s.attr == "warp" else "nf.syncthreads()"
        return f"nf.{s.op}({args})"

    def expression(self, s: Let) -> str:
        """An operation as an expression."""
        special = _SPECIAL.get(s.op)
        if special is not None:
            return special(self, s)
        text = f"np.{OPS[s.op].rule}" if s.attr == NUMPY else OPS[s.op].python
        if "{" in text:
            return text.format(**dict(zip("ab", map(self.value, s.args), strict=False)))
        return f"{text}({', '.join(map(self.bare, s.args))})"

    def cast(self, s: Let) -> str:
        attr = str(s.attr)
        known = {"int", "float", "complex", "bool"}
        text = attr if attr in known else "ml_dtypes.bfloat16" if attr == "bfloat16" \
            else f"np.{attr}"
        return f"{text}({self.bare(s.args[0])})"

    def bits(self, s: Let) -> str:
        return f"{self.value(s.args[0])}.view(np.{s.attr})"

    def index(self, s: Let) -> str:
        return f"nf.scalar.source.buffers.count({self.bare(s.args[0])})"

    def identity(self, s: Let) -> str:
        return self.bare(s.args[0])

    def load(self, s: Let) -> str:
        if s.attr == "once":
            array, *index = s.args
            return f"{self.value(array)}.load_once({', '.join(map(self.bare, index))})"
        return self.at(s, 0)

    def extent(self, s: Let) -> str:
        return f"{self.value(s.args[0])}.shape[{s.attr}]"

    def stride(self, s: Let) -> str:
        return f"{self.value(s.args[0])}.strides[{s.attr}]"

    def thread(self, s: Let) -> str:
        return f"nf.{s.attr}"

    def shuffle(self, s: Let) -> str:
        value, lane = map(self.bare, s.args)
        return f"nf.{_SHUFFLES[str(s.attr)]}(0xffffffff, {value}, {lane})"

    def shared(self, s: Let) -> str:
        shape = "".join(f"{self.value(a)}, " for a in s.args)
        return f'nf.shared.array(({shape.rstrip()}), "{s.attr}")'

    def atomic(self, s: Let) -> str:
        count = 2 if s.attr == "cas" else 1
        array, *index = s.args[:-count]
        name = f"{s.attr}_" if s.attr in ("and", "or") else s.attr
        where = "".join(f"{self.bare(i)}, " for i in index).rstrip()
        values = ", ".join(map(self.bare, s.args[-count:]))
        return f"nf.atomic.{name}({self.value(array)}, ({where}), {values})"

    def buffer(self, s: Let) -> str:
        zeros = ", True" if s.attr == "zeros" else ""
        return f"nf.scalar.source.buffers.buffer({self.value(s.args[0])}{zeros})"


_SPECIAL: dict[str, Callable[[_Printer, Let], str]] = {
    "bits": _Printer.bits, "cast": _Printer.cast, "id": _Printer.identity,
    "index": _Printer.index, "load": _Printer.load,
    "buffer_load": _Printer.load, "extent": _Printer.extent,
    "stride": _Printer.stride, "thread": _Printer.thread,
    "shuffle": _Printer.shuffle, "shared": _Printer.shared, "atomic": _Printer.atomic,
    "buffer": _Printer.buffer,
}


def _hinted(text: str, most: int) -> str:
    """The range or condition of a loop, inside `nf.max_iters` if that was said."""
    return f"nf.max_iters({text}, {most})" if most else text


def _number(v: Literal) -> str:
    """A literal; NumPy has names for those that Python does not write."""
    text = v.text.strip("()")
    text = re.sub(r"\b(inf|nan)\b", r"np.\1", text)
    return f"({text})" if not re.fullmatch(r"[\w.]+", text) else text


def _reads(block: Block) -> Iterator[str]:
    """Every read of a name, as often as it happens in the text."""
    yield from (v for v in block.yields if isinstance(v, str))
    for s in walk(block):
        yield from (v for v in operands(s) if isinstance(v, str))
        for region in regions(s):
            yield from (v for v in region.yields if isinstance(v, str))


def _direct(block: Block) -> set[str]:
    """Names that are read by a statement of `block` itself, or yielded by it."""
    found = names(block.yields)
    for s in block.statements:
        found |= names(operands(s))
    return found - _bodies(block.statements)


def _bodies(statements: Sequence[Statement]) -> set[str]:
    """Names that are read further inside, where they could be computed often."""
    found: set[str] = set()
    for s in statements:
        for region in regions(s):
            found |= set(_reads(region)) - defined(region)
    return found
