"""Typed scalar functions written one after the other, as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count

import numpy as np

from ....gpu.row_layout import read_names
from ....scalar.ir.clean import clean
from ....scalar.ir.nodes import Block, Function, Let, Statement, Value, rename
from ....scalar.typing.types import Typed, compute_dtype

__all__ = ["Joined"]


class Joined:
    """A typed function under construction.

    Parameters
    ----------
    params
        The computing dtype of each parameter.

    Attributes
    ----------
    values
        What parameters of the functions that are written may be wired to, by name:
        a value and its dtype.
    """

    def __init__(self, params: Mapping[str, np.dtype]) -> None:
        self._params = dict(params)
        self._dtypes = dict(params)
        self._statements: list[Statement] = []
        self._calls = 0
        # No parameter begins so.
        self._own = next(own for n in count(1) if not any(
            p.startswith(own := "f"*n) for p in params))
        self.values: dict[str, tuple[Value, np.dtype]] = {
            p: (p, d) for p, d in params.items()}

    def call(self, typed: Typed,
             wired: Mapping[str, str] | None = None) -> list[tuple[Value, np.dtype]]:
        """Write a function; its results, in their computing dtypes.

        `wired` says to which name a parameter is wired, if not to its own.
        """
        self._calls += 1
        prefix, wired = f"{self._own}{self._calls}_", wired or {}
        mapping: dict[str, Value] = {}
        for p in read_names(typed):
            value, have = self.values[wired.get(p, p)]
            mapping[p] = self.cast(value, have, typed.dtypes.get(p, have))
        body = rename(typed.function.body, mapping, lambda n: prefix + n)
        own = {prefix + n: d for n, d in typed.dtypes.items()
               if n not in typed.function.params}
        self._dtypes |= own
        self._statements += body.statements
        return [(value, compute_dtype(d))
                for value, d in zip(body.yields, typed.results, strict=True)]

    def let(self, op: str, args: Sequence[Value], dtype: np.dtype,
            attr: str | None = None) -> str:
        """Write one operation; the name of its result."""
        name = f"{self._own}_{len(self._statements)}"
        self._statements.append(Let((name,), op, tuple(args), attr))
        self._dtypes[name] = dtype
        return name

    def cast(self, value: Value, have: np.dtype, want: np.dtype) -> Value:
        """A value in another dtype."""
        return value if have == want else self.let("cast", (value,), want, want.name)

    def typed(self, name: str, results: Sequence[tuple[Value, np.dtype]]) -> Typed:
        """The function of all parameters with these results and logical dtypes."""
        body = Block(tuple(self._statements), tuple(value for value, _ in results))
        function = clean(Function(name, tuple(self._params), body))
        return Typed(function, self._dtypes, tuple(d for _, d in results))
