"""Kernels written as code with slots.

A skeleton reads as the kernel that it is, and is a function that writes the kernel's
text.  In its body a name is *known* if it is a parameter, a global of the module, or in
capitals; every other name is the kernel's, and so is what a parameter that is annotated
`Code` stands for::

    @skeleton
    def halve(out: Source, STATE: list[str], depth: int) -> None:
        half = depth // 2                     # written: half = 4
        while half > 0:                       # written: while half > 0:
            for K, NAME in enumerate(STATE):  # unrolled
                OTHER = f"{NAME}_o"           # bound
                load(out, OTHER, half*depth)  # called with "x_o" and "half*8"
                STATE[K] = maximum(NAME, OTHER)  # written: x = maximum(x, x_o)

What is known is evaluated while the text is written.  A call of a known function is a
slot: what it needs of the kernel is given to it as text, and what it returns stands in
its place.  ``if``, ``for``, ``with``, comprehensions and conditional expressions over
what is known run; every other statement is written, line by line, to `out`.
"""

from __future__ import annotations

import ast
import builtins
import marshal
import re
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from importlib.util import MAGIC_NUMBER
from itertools import accumulate
from pathlib import Path
from types import CodeType
from typing import Any, ParamSpec, TypeVar

import nbfused.cache as cache

__all__ = ["Code", "as_operand", "skeleton"]

#: The text of an expression of the kernel: a parameter that stands in its place.
Code = str

_P = ParamSpec("_P")
_R = TypeVar("_R")
#: An operand of these is put in parentheses unless it is one word.
_OPERATORS = (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare)
_WORD = re.compile(r"[\w.]+")


def skeleton(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Turn a skeleton into the function that writes its text, when first called."""
    @wraps(function)
    def write(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        return _writers(function.__module__)[function.__name__](*args, **kwargs)

    return write


@lru_cache(maxsize=64)
def _writers(module: str) -> dict[str, Callable[..., Any]]:
    """The functions that write the skeletons of a module.

    Reading them takes 25 ms, so that they are kept: a process that compiles nothing
    reads nothing either.
    """
    names = vars(sys.modules[module])
    path = Path(names["__file__"])
    key = cache.digest("skeletons", MAGIC_NUMBER, Path(__file__).read_bytes(),
                       path.read_bytes())
    code = cache.noted(key, marshal.loads)
    if code is None:
        code = _read(path, names)
        cache.note(key, marshal.dumps(code))
    found: dict[str, Any] = {}
    exec(code, names | {"as_operand": as_operand}, found)
    return found


def _read(path: Path, names: dict[str, Any]) -> CodeType:
    """The code of the functions that write the skeletons of a module."""
    text = path.read_text("utf-8")
    made: list[ast.stmt] = [
        _Reader(text, names, f).writer() for f in ast.parse(text).body
        if isinstance(f, ast.FunctionDef) and _is_skeleton(f)]
    return compile(ast.fix_missing_locations(ast.Module(made, [])), path, "exec")


def _is_skeleton(function: ast.FunctionDef) -> bool:
    return any(isinstance(d, ast.Name) and d.id == skeleton.__name__
               for d in function.decorator_list)


def as_operand(value: object) -> str:
    """The text of an operator's operand: in parentheses unless it is one word."""
    text = str(value)
    return text if _WORD.fullmatch(text) else f"({text})"


class _Reader:
    """Makes the writer of one skeleton.

    Parameters
    ----------
    text
        Of the module.
    names
        The module's globals.
    function
        The skeleton.
    """

    def __init__(self, text: str, names: dict[str, Any],
                 function: ast.FunctionDef) -> None:
        self.text, self.function = text, function
        self.lines = [0, *accumulate(map(len, text.splitlines(keepends=True)))]
        self.globals = names
        code = {a.arg: ast.unparse(a.annotation or a) == "Code"
                for a in function.args.args}
        self.params, self.code = ({a for a, is_code in code.items() if is_code == which}
                                  for which in (False, True))

    def writer(self) -> ast.FunctionDef:
        """The function that writes the text."""
        f = self.function
        return ast.copy_location(ast.FunctionDef(
            f.name, f.args, self._body(f.body), []), f)

    # --- statements

    def _body(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        return [made for s in statements for made in self._statement(s)]

    def _statement(self, s: ast.stmt) -> list[ast.stmt]:
        made: list[ast.stmt]
        match s:
            case ast.Assign(targets=[target]) if self._binds(target):
                made = [ast.Assign([target], self._value(s.value))]
            case ast.Expr(ast.Constant()):
                return []
            case ast.Expr(ast.Yield(value)):
                made = [ast.Expr(ast.Yield(value and self._value(value)))]
            case ast.Expr(ast.Call(func)) if self._known(func):
                made = [ast.Expr(self._value(s.value))]
            case ast.Return():
                made = [ast.Return(s.value and self._value(s.value))]
            case ast.For():
                made = [ast.For(s.target, self._value(s.iter), self._body(s.body), [])]
            case ast.With():
                made = [ast.With([ast.withitem(self._value(i.context_expr),
                                               i.optional_vars) for i in s.items],
                                 self._body(s.body))]
            case ast.If() if self._known(s.test):
                made = [ast.If(s.test, self._body(s.body), self._body(s.orelse))]
            case ast.If() | ast.While():
                word = "if" if isinstance(s, ast.If) else "while"
                made = [self._block(self._quoted(s.test, f"{word} ", ":"), s.body)]
                if s.orelse:
                    made.append(self._block(ast.Constant("else:"), s.orelse))
            case _:
                self._check_targets(s)
                made = [ast.Expr(ast.Call(ast.Name("out", ast.Load()),
                                          [self._quoted(s)], []))]
        return [ast.copy_location(m, s) for m in made]

    def _binds(self, target: ast.expr) -> bool:
        """Whether an assignment gives a value to what is known."""
        if isinstance(target, ast.Tuple):
            return all(map(self._binds, target.elts))
        return isinstance(target, ast.Name) and target.id.isupper()

    def _check_targets(self, s: ast.stmt) -> None:
        for n in ast.walk(s):
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) \
                    and self._is_known(n.id):
                raise SyntaxError(f"the kernel assigns to {n.id}, which the skeleton's "
                                  "module, parameters or capitals have")

    def _block(self, head: ast.expr, body: Sequence[ast.stmt]) -> ast.stmt:
        call = ast.Call(ast.Attribute(ast.Name("out", ast.Load()), "block", ast.Load()),
                        [head], [])
        return ast.With([ast.withitem(call)], self._body(body))

    # --- expressions

    def _is_known(self, name: str) -> bool:
        return name not in self.code and (
            name.isupper() or name in self.params or name in self.globals)

    def _is_code(self, e: ast.AST) -> bool:
        return isinstance(e, ast.Name) and e.id in self.code

    def _known(self, e: ast.AST, bare: bool = True) -> bool:
        """All names are known; unless `bare`, not only Python's own."""
        names = [n.id for n in ast.walk(e) if isinstance(n, ast.Name)]
        return all(self._is_known(n) or hasattr(builtins, n) for n in names) and (
            bare or any(map(self._is_known, names)))

    def _value(self, e: ast.expr) -> ast.expr:
        """An expression outside of the kernel: what is not known becomes its text."""
        if self._known(e) or self._is_code(e):
            return e
        match e:
            case ast.Call(func, args, keywords) if self._known(func, bare=False):
                return ast.Call(func, [self._value(a) for a in args], [
                    ast.keyword(k.arg, self._value(k.value)) for k in keywords])
            case ast.List(elts):
                return ast.List([self._value(x) for x in elts], ast.Load())
            case ast.ListComp(elt, generators):
                return ast.ListComp(self._value(elt), [ast.comprehension(
                    g.target, self._value(g.iter), g.ifs, 0) for g in generators])
            case ast.IfExp(test) if self._known(test):
                return ast.IfExp(test, self._value(e.body), self._value(e.orelse))
        return self._quoted(e)

    def _quoted(self, e: ast.AST, before: str = "", after: str = "") -> ast.expr:
        """The text of kernel code, with slots for what is known."""
        parts: list[ast.expr] = [ast.Constant(before)]
        at, end = self._span(e)
        for slot, operand in sorted(self._slots(e), key=lambda s: self._span(s[0])):
            start, stop = self._span(slot)
            value = self._value(slot)
            if isinstance(value, ast.Subscript):
                value = ast.Subscript(value.value, value.slice, ast.Load())
            if operand and self.text[start - 1] + self.text[stop] != "()":
                value = ast.Call(ast.Name("as_operand", ast.Load()), [value], [])
            parts += [self._literal(at, start), ast.FormattedValue(value, -1)]
            at = stop
        return ast.JoinedStr([*parts, self._literal(at, end), ast.Constant(after)])

    def _slots(self, e: ast.AST,
               operand: bool = False) -> list[tuple[ast.expr, bool]]:
        """The largest known parts of kernel code, and whether they are operands."""
        match e:
            case ast.expr() if self._known(e, bare=False) or self._is_code(e):
                return [(e, operand)]
            case ast.Call(known) if self._known(known, bare=False):
                return [(e, operand)]
            case ast.IfExp(known) if self._known(known):
                return [(e, operand)]
        inside = isinstance(e, _OPERATORS)
        return [x for child in ast.iter_child_nodes(e)
                for x in self._slots(child, inside)]

    def _literal(self, start: int, stop: int) -> ast.Constant:
        return ast.Constant(re.sub(r"\s*\n\s*", " ", self.text[start:stop]))

    def _span(self, e: ast.AST) -> tuple[int, int]:
        """The beginning and end of code in the text."""
        assert isinstance(e, ast.stmt | ast.expr)
        assert e.end_lineno is not None
        assert e.end_col_offset is not None
        return (self.lines[e.lineno - 1] + e.col_offset,
                self.lines[e.end_lineno - 1] + e.end_col_offset)
