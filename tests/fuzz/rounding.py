"""NumPy's run of a program, and how far rounding may carry another run from it.

The program also runs with the result of each statement changed by a few units of the
last place of its dtype, at random.  What that changes in the end is what a way that
rounds elsewhere (a fused kernel, which keeps float16 in float32) may differ by.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tests.fuzz.oracles import ORACLES
from tests.fuzz.program import Program

__all__ = ["NOISE", "Run", "expected", "run", "spread"]

#: Units of eps that each step is changed by: rounding errs by half a one, the
#: approximations of the kernels by up to four.
NOISE = 4.0
_NAME = re.compile(r"\b[a-z]\w*")


@dataclass
class Run:
    """What a program did: its results, its arguments as it left them, or its error."""

    results: tuple[Any, ...] = ()
    arguments: tuple[Any, ...] = ()
    scope: dict[str, Any] | None = None
    error: Exception | None = None


def run(program: Program, noise: np.random.Generator | None = None) -> Run:
    """Run with NumPy, statement by statement."""
    values = program.values()
    scope: dict[str, Any] = dict(zip((a.name for a in program.arguments), values,
                                     strict=True))
    if noise is not None:
        for name in scope:
            _disturb(scope, name, noise, ())
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for statement in program.statements:
                _step(statement, scope, noise)
        except Exception as error:
            return Run(scope=scope, error=error)
    return Run(tuple(scope[r] for r in program.results), tuple(values), scope)


def _step(statement: Any, scope: dict[str, Any],
          noise: np.random.Generator | None) -> None:
    before = {} if noise is None else {
        name: (x, np.array(x)) for name, x in scope.items()}
    if noise is None:
        exec(statement.text, {"np": np, "ops": ORACLES}, scope)
        return
    exec(_noisy(statement.text), {"np": np, "ops": ORACLES, "_rounded": lambda x: (
        _rounded(x, scope, noise))}, scope)
    if statement.exact:
        return
    read = [scope[n] for n in _NAME.findall(statement.text) if n in scope]
    for name, x in [*scope.items()]:
        same = name in before and before[name][0] is x and np.array_equal(
            before[name][1], x, equal_nan=before[name][1].dtype.kind in "fc")
        if not same:
            _disturb(scope, name, noise, read)


class _Operands(ast.NodeTransformer):
    """Wraps what is computed within an expression in a call of ``_rounded``."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        return ast.Call(ast.Name("_rounded", ast.Load()), [node], [])

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        return ast.Call(ast.Name("_rounded", ast.Load()), [node], [])


@lru_cache(maxsize=1024)
def _noisy(text: str) -> Any:
    """The statement, rounded after each step within it too."""
    tree = ast.fix_missing_locations(_Operands().visit(ast.parse(text)))
    return compile(tree, "<noisy>", "exec")


def _rounded(x: Any, scope: dict[str, Any], noise: np.random.Generator) -> Any:
    """A temporary, changed in its last places; names and views stay as they are."""
    named = isinstance(x, np.ndarray) and (
        x.base is not None or any(x is v for v in scope.values()))
    if not isinstance(x, (np.ndarray, np.inexact)) or named:
        return x
    holder = {"x": x}
    _disturb(holder, "x", noise, ())
    return holder["x"]


def _disturb(scope: dict[str, Any], name: str, noise: np.random.Generator,
             read: Sequence[Any]) -> None:
    """Change a value in its last places, or those of what it is made of."""
    x = scope[name]
    if not isinstance(x, (np.ndarray, np.inexact)) or x.dtype.kind not in "fc":
        return
    eps = NOISE * max(np.finfo(v.dtype).eps for v in (x, *read) if isinstance(
        v, (np.ndarray, np.inexact)) and v.dtype.kind in "fc")
    with np.errstate(all="ignore"):
        changed = np.asarray(x * (1 + eps * noise.choice([-1.0, 1.0], np.shape(x)))
                             ).astype(x.dtype)
        changed = np.where(np.isfinite(changed), changed, x)
    if isinstance(x, np.ndarray):
        if x.flags.writeable:
            x[...] = changed
    else:
        scope[name] = changed[()]


def spread(exact: Any, others: list[Any]) -> Any:
    """How far the others are from the exact one, at each element."""
    wide = [np.asarray(x).astype(np.complex128) for x in (exact, *others)]
    with np.errstate(all="ignore"):
        found = np.max([np.abs(x - wide[0]) for x in wide[1:]], axis=0)
    return np.where(np.isfinite(found), found, 0.0)


def expected(program: Program, runs: int = 6) -> tuple[Run, list[Any], list[Any]]:
    """NumPy's run; the spreads of results and of arguments."""
    exact = run(program)
    others = [run(program, np.random.default_rng(k)) for k in range(runs)]
    others = [o for o in others if o.error is None]
    return (exact, *([spread(x, [getattr(o, what)[k] for o in others])
                      for k, x in enumerate(getattr(exact, what))]
                     for what in ("results", "arguments")))
