"""Derivatives of scalar functions: reverse mode (`vjp`) and forward mode (`jvp`).

Both read one table of partial derivatives, the vocabulary's.  Reverse mode runs the
function and then walks it backwards; a branch is mirrored as a branch that runs its
own part of the function again, so that the side that was not taken contributes no
``0 * inf``.
"""

from __future__ import annotations

from functools import lru_cache

from ..errors import NotDifferentiableError
from .build import ZERO, Builder, inline, is_number
from .clean import clean, has_effects
from .ir import (
    EFFECTS,
    Block,
    Custom,
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
    rename,
)
from .rules import has_rule, jvp_rule, numbers, vjp_rule
from .vocabulary import OPS

__all__ = ["jvp", "vjp"]

#: Operations without influence on a derivative, besides those with no partials.
INTEGRAL = {"int", "bool", *(f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64))}


@lru_cache(maxsize=4096)
def partial(op: str, operand: int) -> Function | None:
    """The partial derivative of `op` as function of a, b, …, y; None if it is zero."""
    from .parse import parse_expression

    table = OPS[op].partials
    text = table[operand] if operand < len(table) else None
    if text is None:
        return None
    params = "abcd"[:OPS[op].arity]
    return parse_expression(text, (*params, "y"))


def _partials(s: Let) -> list[tuple[str, Function]]:
    """The operands of `s` that have influence, with their partials."""
    if s.op not in OPS or s.op == "id":
        return []
    found = ((a, partial(s.op, k)) for k, a in enumerate(s.args))
    return [(a, p) for a, p in found if p is not None and isinstance(a, str)]


def _check(s: Let, active: set[str]) -> None:
    """Refuse operations that have no rule where one is needed."""
    if s.op in OPS and not OPS[s.op].partials and active.intersection(
            a for a in s.args if isinstance(a, str)):
        raise NotDifferentiableError(
            f"'{s.op}' in line {s.line} has no derivative; detach its argument")


def _linear(s: Let) -> tuple[Value, ...] | None:
    """The operands that `s` passes through unchanged, for the ops that only do that."""
    if s.op == "id" or (s.op == "cast" and s.attr not in INTEGRAL):
        return s.args
    return None


class _Reverse(Builder):
    """Adjoints of the names in `active`; `raw` maps a raw array to its cotangent."""

    def __init__(self, taken: set[str], active: set[str], raw: dict[str, str]) -> None:
        super().__init__(taken)
        self.active, self.raw = active, raw

    def accumulate(self, adjoint: dict[str, Value], v: Value, g: Value) -> None:
        if not isinstance(v, str) or v not in self.active or is_number(g, 0):
            return
        adjoint[v] = self.add(adjoint[v], g, f"{v}_bar") if v in adjoint else g

    def sweep(self, statements: tuple[Statement, ...],
              adjoint: dict[str, Value]) -> None:
        for s in reversed(statements):
            match s:
                case Let():
                    self.reverse_let(s, adjoint)
                case If():
                    self.reverse_if(s, adjoint)
                case Custom():
                    self.reverse_custom(s, adjoint)
                case _ if set(s.results) & set(adjoint):
                    raise NotDifferentiableError(
                        "reverse mode through a loop is not available yet; got a "
                        f"{type(s).__name__.lower()} loop; use a closed form, or "
                        "nf.jvp")

    def reverse_let(self, s: Let, adjoint: dict[str, Value]) -> None:
        if s.op == "atomic_add" and s.args[0] in self.raw:
            read = self.let("load", self.raw[str(s.args[0])], *s.args[1:-1], stem="g")
            return self.accumulate(adjoint, s.args[-1], read)
        if not s.results or s.results[0] not in adjoint:
            return None
        g = adjoint.pop(s.results[0])
        if s.op == "load":
            if s.args[0] in self.raw:
                self.effect("atomic_add", self.raw[str(s.args[0])], *s.args[1:], g)
            return None
        for a in _linear(s) or ():
            self.accumulate(adjoint, a, g)
        if s.op == "select":
            return self.reverse_select(s, g, adjoint)
        for a, p in _partials(s):
            if a in self.active:
                (d,) = self.call(p, *s.args, s.results[0])
                self.accumulate(adjoint, a, self.mul(g, d))
        return None

    def reverse_select(self, s: Let, g: Value, adjoint: dict[str, Value]) -> None:
        condition, a, b = s.args
        if isinstance(a, str) and a in self.active:
            self.accumulate(adjoint, a, self.select(condition, g, ZERO))
        if isinstance(b, str) and b in self.active:
            self.accumulate(adjoint, b, self.select(condition, ZERO, g))

    def reverse_custom(self, s: Custom, adjoint: dict[str, Value]) -> None:
        seeds = [adjoint.pop(r, ZERO) for r in s.results]
        if s.results and all(is_number(g, 0) for g in seeds):
            return
        found = self.call(vjp_rule(s), *s.args, *seeds)
        for a, g in zip(numbers(s), found, strict=True):
            self.accumulate(adjoint, a, g)

    def reverse_if(self, s: If, adjoint: dict[str, Value]) -> None:
        seeds = [adjoint.pop(r, None) for r in s.results]
        if all(g is None for g in seeds):
            return
        found: list[dict[str, Value]] = []
        bodies: list[list[Statement]] = []
        for branch in (s.then, s.orelse):
            with self.region() as body:
                found.append(self.reverse_branch(branch, seeds))
            bodies.append(body)
        touched = sorted(set(found[0]) | set(found[1]))
        then, orelse = (Block(tuple(b), tuple(f.get(v, ZERO) for v in touched))
                        for b, f in zip(bodies, found, strict=True))
        results = self.branch(s.condition, then, orelse,
                              [f"{v}_bar" for v in touched])
        for v, g in zip(touched, results, strict=True):
            self.accumulate(adjoint, v, g)

    def reverse_branch(self, branch: Block,
                       seeds: list[Value | None]) -> dict[str, Value]:
        """Run the branch again under fresh names, then its reverse."""
        own = defined(branch)
        fresh: dict[str, str] = {}

        def name(n: str) -> str:
            fresh[n] = self.fresh(n)
            return fresh[n]

        again = rename(branch, {}, name)
        self.active |= {new for old, new in fresh.items() if old in self.active}
        self.statements.extend(
            s for s in again.statements if not (isinstance(s, Let) and s.op in EFFECTS))
        inner: dict[str, Value] = {}
        for v, g in zip(again.yields, seeds, strict=True):
            if g is not None:
                self.accumulate(inner, v, g)
        self.sweep(again.statements, inner)
        return {v: g for v, g in inner.items() if v not in own and v not in
                set(fresh.values())}


def _active(block: Block, active: set[str]) -> set[str]:
    """Names whose value depends differentiably on the names in `active`."""
    for s in block.statements:
        match s:
            case Let():
                _check(s, active)
                depends = _linear(s) or [a for a, _ in _partials(s)]
                if s.op == "select":
                    depends = s.args[1:]
                if s.op == "load":
                    depends = s.args[:1]
                if any(isinstance(a, str) and a in active for a in depends):
                    active |= set(s.results)
            case If():
                _active(s.then, active)
                _active(s.orelse, active)
                for r, *ys in zip(s.results, s.then.yields, s.orelse.yields,
                                  strict=True):
                    if any(isinstance(y, str) and y in active for y in ys):
                        active.add(r)
            case Custom():
                ruled = s.vjp is not None and has_effects(s.vjp.body)
                if ruled or active.intersection(names(s.args)):
                    active |= set(s.results)
            case For() | While():
                _active_loop(s, active)
    return active


def _active_loop(s: For | While, active: set[str]) -> None:
    links = list(zip(s.params, s.inits, s.body.yields, s.results, strict=True))
    before = -1
    while before != len(active):
        before = len(active)
        for param, init, carried, result in links:
            if any(isinstance(v, str) and v in active for v in (init, carried)):
                active |= {param, result}
        _active(s.body, active)


@lru_cache(maxsize=4096)
def vjp(function: Function, wrt: tuple[bool, ...], present: tuple[bool, ...],
        from_outputs: bool = False, raw: tuple[str, ...] = ()) -> Function:
    """Reverse-mode derivative.

    Parameters
    ----------
    function : Function
        The primal, parameters p, results r.
    wrt : tuple of bool
        The parameters whose cotangents are wanted.
    present : tuple of bool
        The results that have a cotangent; the others' is zero.
    from_outputs : bool
        Read the primal's results from parameters of their own where that saves
        computing them again (tanh: ``1 - y * y``).
    raw : tuple of str
        The parameters that are raw arrays.

    Returns
    -------
    Function
        Parameters: p, then ``<r>_out`` for each result if `from_outputs`, then a
        cotangent for each present result, then an accumulator for each raw array
        in `wrt`.  Results: a cotangent for each other parameter in `wrt`; the
        literal zero where there is no influence.
    """
    function = inline(function, has_rule)
    wanted = [p for p, w in zip(function.params, wrt, strict=True) if w]
    taken = defined(function.body) | set(function.params)
    bars = {p: f"{p}_bar" for p in wanted if p in raw}
    b = _Reverse(taken | set(bars.values()),
                 _active(function.body, set(wanted)), bars)
    cotangents = [b.fresh(f"g{k}") for k, here in enumerate(present) if here]
    outs = [b.fresh(f"out{k}") for k in range(len(present))] if from_outputs else []
    adjoint: dict[str, Value] = {}
    seeds = iter(cotangents)
    for r, here in zip(function.results, present, strict=True):
        if here:
            b.accumulate(adjoint, r, next(seeds))
    b.statements.extend(s for s in function.body.statements
                        if not (isinstance(s, Let) and s.op in EFFECTS))
    start = len(b.statements)
    b.sweep(function.body.statements, adjoint)
    yields = tuple(adjoint.get(p, ZERO) for p in wanted if p not in raw)
    body = Block(tuple(b.statements), yields)
    if from_outputs:
        body = _read_outputs(body, start, function, outs)
    return clean(Function(f"{function.name}_vjp",
                          (*function.params, *outs, *cotangents, *bars.values()),
                          body, function.pyfile, function.line))


def _read_outputs(body: Block, start: int, function: Function,
                  outs: list[str]) -> Block:
    """Read results from parameters in the reverse part of `body`."""
    computed = {r for s in function.body.statements for r in s.results}
    table: dict[str, Value] = {r: o for r, o in zip(function.results, outs, strict=True)
                               if isinstance(r, str) and r in computed}
    tail = rename(Block(body.statements[start:], body.yields), table, lambda n: n)
    return Block((*body.statements[:start], *tail.statements), tail.yields)


@lru_cache(maxsize=4096)
def jvp(function: Function, wrt: tuple[bool, ...]) -> Function:
    """Forward-mode derivative.

    Returns
    -------
    Function
        Parameters: the primal's, then a tangent for each in `wrt`.  Results: the
        primal's, then their tangents.
    """
    function = inline(function, has_rule)
    b = Builder(defined(function.body) | set(function.params))
    tangent: dict[str, Value] = {}
    for p, w in zip(function.params, wrt, strict=True):
        if w:
            tangent[p] = b.fresh(f"{p}_dot")
    params = (*function.params, *(str(t) for t in tangent.values()))
    _forward(b, function.body.statements, tangent)
    dots = tuple(tangent.get(r, ZERO) if isinstance(r, str) else ZERO
                 for r in function.results)
    return clean(Function(f"{function.name}_jvp", params,
                          Block(tuple(b.statements), (*function.results, *dots)),
                          function.pyfile, function.line))


def _dot(tangent: dict[str, Value], v: Value) -> Value:
    return ZERO if isinstance(v, Literal) else tangent.get(v, ZERO)


def _forward(b: Builder, statements: tuple[Statement, ...],
             tangent: dict[str, Value]) -> None:
    for s in statements:
        match s:
            case Let():
                b.statements.append(s)
                if s.results:
                    _forward_let(b, s, tangent)
            case If():
                _forward_if(b, s, tangent)
            case Custom():
                b.statements.append(s)
                tangents = [_dot(tangent, a) for a in numbers(s)]
                dots = b.call(jvp_rule(s), *s.args, *tangents)
                tangent.update(zip(s.results, dots, strict=True))
            case For() | While():
                _forward_loop(b, s, tangent)


def _forward_let(b: Builder, s: Let, tangent: dict[str, Value]) -> None:
    total: Value = ZERO
    for a in _linear(s) or ():
        total = _dot(tangent, a)
    if s.op == "select":
        total = b.select(s.args[0], _dot(tangent, s.args[1]), _dot(tangent, s.args[2]))
    elif s.op == "load" and s.args[0] in tangent:
        total = b.let("load", tangent[str(s.args[0])], *s.args[1:])
    for a, p in _partials(s):
        if not is_number(_dot(tangent, a), 0):
            (d,) = b.call(p, *s.args, s.results[0])
            total = b.add(total, b.mul(_dot(tangent, a), d))
    if not is_number(total, 0):
        tangent[s.results[0]] = total


def _forward_if(b: Builder, s: If, tangent: dict[str, Value]) -> None:
    blocks = []
    for branch in (s.then, s.orelse):
        inner = dict(tangent)
        with b.region() as body:
            _forward(b, branch.statements, inner)
        blocks.append(Block(tuple(body), (
            *branch.yields, *(_dot(inner, y) for y in branch.yields))))
    dots = tuple(b.fresh(f"{r}_dot") for r in s.results)
    b.statements.append(If((*s.results, *dots), s.condition, *blocks))
    tangent.update(zip(s.results, dots, strict=True))


def _forward_loop(b: Builder, s: For | While, tangent: dict[str, Value]) -> None:
    inner = dict(tangent)
    dots = tuple(b.fresh(f"{p}_dot") for p in s.params)
    inner.update(zip(s.params, dots, strict=True))
    with b.region() as body:
        _forward(b, s.body.statements, inner)
    block = Block(tuple(body), (*s.body.yields,
                                *(_dot(inner, y) for y in s.body.yields)))
    outs = tuple(b.fresh(f"{r}_dot") for r in s.results)
    results, params = (*s.results, *outs), (*s.params, *dots)
    inits = (*s.inits, *(_dot(tangent, v) for v in s.inits))
    if isinstance(s, For):
        b.statements.append(For(results, s.index, s.count, params, inits, block))
    else:
        b.statements.append(While(results, params, inits, s.condition, block))
    tangent.update(zip(s.results, outs, strict=True))
