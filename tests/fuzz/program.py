"""A random program: arguments, statements and results, all of them Python text.

The same text runs with NumPy, fused, on Variables and on tensors, and is the
reproduction of a failure.
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import nbfused as nf

_FILES = itertools.count()
#: What the texts of arguments may name.
LITERALS = {"np": np, "nan": np.nan, "inf": np.inf}


@dataclass(frozen=True)
class Argument:
    """A parameter, and the text that makes what is passed for it.

    Attributes
    ----------
    text
        An expression; it may name the arguments before it, to share their memory.
    again
        Another number of the same type, for a later call; empty for arrays.
    """

    name: str
    text: str
    again: str = ""


@dataclass(frozen=True)
class Statement:
    """One statement, compound ones in several lines.

    Attributes
    ----------
    features
        What some ways of running a program refuse, such as ``"store"``.
    exact
        Whether it rounds nothing: then every way gives the same bits.
    """

    text: str
    features: frozenset[str] = frozenset()
    exact: bool = False


@dataclass(frozen=True)
class Program:
    """Arguments, statements, and the names that are returned."""

    arguments: tuple[Argument, ...]
    statements: tuple[Statement, ...] = ()
    results: tuple[str, ...] = ()

    @property
    def features(self) -> frozenset[str]:
        """Of all its statements."""
        return frozenset().union(*(s.features for s in self.statements))

    @property
    def text(self) -> str:
        """The function."""
        body = "\n".join([s.text for s in self.statements]
                         + [f"return {', '.join(self.results)},"])
        head = f"def program({', '.join(a.name for a in self.arguments)}):"
        return f"{head}\n{textwrap.indent(body, '    ')}"

    @property
    def reproduction(self) -> str:
        """A script that makes the arguments and defines the function."""
        made = [f"{a.name} = {a.text}" for a in self.arguments]
        return "\n".join(["import numpy as np", "from numpy import inf, nan",
                          "import nbfused as nf", "from nbfused import ops", *made,
                          self.text])

    def values(self) -> list[Any]:
        """New arguments."""
        scope: dict[str, Any] = dict(LITERALS)
        for a in self.arguments:
            scope[a.name] = eval(a.text, scope)
        return [scope[a.name] for a in self.arguments]

    def function(self, numpy: Any = np, ops: Any = nf.ops) -> Callable[..., Any]:
        """The function; `numpy` and `ops` are what it calls so."""
        scope = {"np": numpy, "ops": ops}
        exec(compile(self.text, f"<program {next(_FILES)}>", "exec"), scope)
        return scope["program"]

    @property
    def later(self) -> Program:
        """The same program, called with other numbers."""
        return replace(self, arguments=tuple(
            replace(a, text=a.again or a.text) for a in self.arguments))

    def plus(self, statement: Statement) -> Program:
        """With one more statement."""
        return replace(self, statements=(*self.statements, statement))
