"""Text of a block in phases: loops over threads, with values kept in arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import NamedTuple

import numpy as np

from ...scalar.ir.nodes import Block, Function, Literal, Statement, Value, defined, read
from ...scalar.printing.numba import Raw, decode, encode, literal, statements
from ...scalar.typing.literals import number
from ...scalar.typing.types import Typed
from ...specs.raw import TypedRaw
from ..text.function_names import CALLS
from ..text.lines import indented, inlined, loop

__all__ = ["BOOL", "PhaseText", "Slot"]

BOOL = np.dtype(np.bool_)


class Slot(NamedTuple):
    """An array with a row of `length` for each thread of a block."""

    dtype: np.dtype
    length: int

    @property
    def itemsize(self) -> int:
        """Bytes of a row."""
        return self.dtype.itemsize * self.length


class PhaseText:
    """Writer of a block's lines and of the functions that its threads run.

    Parameters
    ----------
    typed
        The kernel.
    arrays
        The text of each array, parameter or shared.
    values
        The text of each other parameter.
    needs
        For each parameter, the names that a function which reads it is given.

    Attributes
    ----------
    functions
        Text of the phases.
    lines
        Text of the block.
    slots
        The arrays with an element for each thread, or a row.
    """

    def __init__(self, typed: TypedRaw, arrays: Mapping[str, Raw],
                 values: Mapping[str, str],
                 needs: Mapping[str, tuple[str, ...]]) -> None:
        self.dtypes = dict(typed.function.dtypes)
        self.arrays, self.values = dict(arrays), dict(values)
        self.needs = dict(needs)
        self.functions: list[str] = []
        self.lines: list[str] = []
        self.slots: dict[str, Slot] = {}
        self.homes: dict[str, str] = {}
        self._depth = 0
        self._counter = count()

    # Text --------------------------------------------------------------------------

    def line(self, *texts: str) -> None:
        """Add lines to the block at the present indentation."""
        self.lines += ["    " * self._depth + text for text in texts]

    @contextmanager
    def inside(self, head: str) -> Iterator[None]:
        """Add a compound statement; lines in the ``with`` block are its body."""
        self.line(head)
        self._depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self._depth -= 1

    def slot(self, dtype: np.dtype, length: int = 1) -> str:
        """Reserve an array with an element for each thread, or a row."""
        name = f"s{len(self.slots)}"
        self.slots[name] = Slot(dtype, length)
        return name

    def home(self, name: str) -> str:
        """The array in which the threads keep the value `name`."""
        if name not in self.homes:
            self.homes[name] = self.slot(self.dtypes[name])
        return self.homes[name]

    def dtype(self, v: Value) -> np.dtype:
        """The dtype in which a value is computed."""
        return np.dtype(v.kind) if isinstance(v, Literal) else self.dtypes[v]

    def text(self, v: Value) -> str:
        """The text of a uniform value."""
        return literal(np.dtype(v.kind), number(v)) if isinstance(v, Literal) \
            else self.values[v]

    def function(self, block: Block) -> Typed:
        """Make a function of a part of the kernel, with what it reads."""
        free = sorted(read(block) - defined(block))
        return Typed(Function("phase", tuple(free), block), self.dtypes,
                     tuple(map(self.dtype, block.yields)))

    # Phases ------------------------------------------------------------------------

    def phase(self, run: Sequence[Statement], stores: Sequence[tuple[str, Value]],
              mask: str | None) -> None:
        """Add a loop in which masked threads run statements and store values."""
        if not run and not stores:
            return
        typed = self.function(Block(tuple(run), tuple(v for _, v in stores)))
        arguments: dict[str, str | Raw] = {}
        given: dict[str, None] = {}
        for p in typed.function.params:
            if p in self.homes:
                home = self.homes[p]
                arguments[p] = decode(self.slots[home].dtype, f"{home}[t]")
                given[home] = None
            else:
                arguments[p] = self.arrays[p] if p in self.arrays else self.values[p]
                given.update(dict.fromkeys(self.needs.get(p, (self.values.get(p, p),))))
        results = [f"r{k}" for k in range(len(stores))]
        body = statements(typed, arguments, results, prefix="v_", calls=CALLS)
        body += [f"{slot}[t] = {encode(self.slots[slot].dtype, r)}"
                 for (slot, _), r in zip(stores, results, strict=True)]
        self.all_threads(body, (*given, *(slot for slot, _ in stores)), mask)

    def all_threads(self, body: Sequence[str], given: Sequence[str],
                    mask: str | None) -> None:
        """Add a loop over the threads of the mask; `given` are names it reads."""
        name = f"phase{sum(f.startswith('def ') for f in self.functions)}"
        if mask is not None:
            body, given = [f"if {mask}[t] != 0:", *indented(body)], (*given, mask)
        fixed = ("base", "ty", "tz")
        passed = list(dict.fromkeys(g for g in given if g not in (*fixed, "t", "tx")))
        self.functions += inlined(name, ["tx", *fixed, *passed],
                                  ["t = base + tx", *body])
        with self.inside("for tz in range(dz):"), self.inside("for ty in range(dy):"):
            self.line("base = (tz*dy + ty)*dx",
                      loop(name, "0", "dx", [*fixed, *passed]))

    def compute(self, s: Statement) -> None:
        """Add a uniform statement, executed once for the block."""
        results = tuple(s.results)
        typed = self.function(Block((s,), results))
        targets = [self.variable(r) for r in results]
        self.line(*statements(typed, {p: self.values[p] for p in typed.function.params},
                              targets, prefix=f"w{len(self.lines)}_", calls=CALLS))

    def variable(self, name: str) -> str:
        """Name the block's variable for a uniform value."""
        self.values[name] = text = f"block{next(self._counter)}"
        return text

    def add_mask(self, expression: str, given: Sequence[str], outer: str | None) -> str:
        """Add a mask: the threads of `outer` for which `expression` holds."""
        made = self.slot(BOOL)
        inside = "True" if outer is None else f"({outer}[t] != 0)"
        self.all_threads([f"{made}[t] = u8({inside} & ({expression}))"],
                         [made, *given, *((outer,) if outer else ())], None)
        return made

    @contextmanager
    def if_any(self, mask: str, otherwise: str = "") -> Iterator[None]:
        """Add lines that run if any thread is in the mask."""
        self.line(f"any_{mask} = 0")
        with self.inside("for t in range(threads):"):
            self.line(f"any_{mask} |= {mask}[t]")
        if otherwise:
            self.line(f"if any_{mask} == 0:", f"    {otherwise}")
            yield
            return
        with self.inside(f"if any_{mask} != 0:"):
            yield
