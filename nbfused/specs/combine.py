"""The closed list of ways to combine, each with its derivative."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar

from ..scalar.ir.nodes import Block, Function, Let, rewrite
from ..scalar.language.vocabulary import NUMPY, OPS
from ..scalar.parse.functions import parse_definition
from ..support.records import record
from .base import Hashed
from .vjp.functions import compose, identity

__all__ = ["COMBINES", "Combine", "sum_combine"]


@record(frozen=True)
class Combine(Hashed):
    """An associative, commutative way to combine a (tuple) state.

    Attributes
    ----------
    lift
        The map's results (and, last, ``index`` if `indexed`) to a state.
    merge
        Two states (first ``a``'s parts, then ``b``'s) to one.
    identity
        For each part: ``"0"``, ``"1"``, ``"lowest"``, ``"highest"``.
    finish
        The state to the values that a reader of the reduction sees.
    cotangent
        The map's results, the state of `saving`, a cotangent for each part of the
        state: to a cotangent for each of the map's results.  None: not
        differentiable.
    saving
        A combine with a richer state, whose first parts are this one's, that the
        derivative needs; None: this state is enough.
    widen
        Keep the state in `numpy.sum`'s accumulator type (int8 -> int64).
    """

    name: str
    lift: Function
    merge: Function
    identity: tuple[str, ...]
    finish: Function
    cotangent: Function | None = None
    saving: Combine | None = None
    indexed: bool = False
    widen: bool = False

    __hash__: ClassVar[Any] = Hashed.__hash__

    @property
    def arity(self) -> int:
        """The number of values that the map gives."""
        return len(self.lift.params) - self.indexed


@lru_cache(maxsize=64)
def sum_combine(arity: int = 1) -> Combine:
    """Sums of `arity` values in one pass."""
    a, b, g = ([f"{s}{k}" for k in range(arity)] for s in "abg")
    merge = compose("add", (*a, *b), lambda w: tuple(
        w.let("add", x, y) for x, y in zip(a, b, strict=True)))
    m = [f"m{k}" for k in range(arity)]
    cotangent = Function("sum_cotangent", (*m, *a, *g), Block((), tuple(g)))
    return Combine("sum", identity(arity), merge, ("0",) * arity, identity(arity),
                   cotangent, widen=True)


#: Maximum and minimum: a tie shares the cotangent equally, so does NaN among NaNs.
_EXTREME = """
def merge(a, ca, b, cb):
    if a != a:
        return (a, ca + cb) if b != b else (a, ca)
    if b != b:
        return b, cb
    if a == b:
        return a, ca + cb
    return (a, ca) if a {op} b else (b, cb)
"""
_SHARE = """
def cotangent(m, value, count, g, gc):
    return g / count if m == value or (m != m and value != value) else 0.0
"""
#: The same of numbers that are no NaN: how many there are, and how many tie.
_KNOWN = """
def lift(m):
    known = m == m
    count = 1.0 if known else 0.0
    return (m if known else {worst}inf), count, count
"""
_KNOWN_MERGE = """
def merge(a, ka, ca, b, kb, cb):
    count = ca + cb if a == b else ca if a {op} b else cb
    return (a if a {op} b else b), ka + kb, count
"""
_KNOWN_SHARE = """
def cotangent(m, value, known, count, g, gk, gc):
    return g / count if m == value else 0.0
"""
_ARG = """
def merge(a, ia, b, ib):
    if a != a:
        return (b, ib) if b != b and ib < ia else (a, ia)
    if b != b:
        return b, ib
    if a == b:
        return (a, ia) if ia < ib else (b, ib)
    return (a, ia) if a {op} b else (b, ib)
"""
#: The product of the other elements.  `first` and `second` sum the zeros and their
#: squares: always 0, but what is differentiated again sees the other zeros in them
#: (Newton's identities), so that derivatives up to the third are right at any zeros.
_PROD = """
def cotangent(m, value, zeros, nonzero, first, second, g, gz, gn, gf, gs):
    if m != 0:
        return (g * value + gn * nonzero) / m
    others = first - m
    pairs = (others * others - (second - m * m)) * 0.5
    rest = (1.0 if zeros == 1 else others if zeros == 2
            else pairs if zeros == 3 else 0.0)
    return g * nonzero * rest + gf + 2.0 * m * gs
"""
_LOGSUMEXP = """
def merge(a, sa, b, sb):
    top = max(a, b)
    if top == -inf or top == inf:
        return top, sa * (1.0 if a == top else 0.0) + sb * (1.0 if b == top else 0.0)
    return top, sa * exp(a - top) + sb * exp(b - top)
"""
#: For functions of ``top + log(total)`` only, whose parts' cotangents agree.
_SOFTMAX = """
def cotangent(m, top, total, g, gt):
    return gt if m == top and (m == inf or m == -inf) else gt * exp(m - top)
"""
_WELFORD = """
def merge(na, a, ma, nb, b, mb):
    n = na + nb
    w = nb / n if n > 0.0 else 0.0
    d = b - a
    return n, a + d * w, ma + mb + d * (d * (na * w))
"""
_MOMENTS = """
def cotangent(m, n, mean, squares, gn, g, gs):
    return g / n + 2.0 * (m - mean) * gs
"""


def _as_numpy(function: Function) -> Function:
    """The same with NumPy's order, which complex numbers have too."""
    def ordered(s: Let) -> tuple[Let]:
        return (replace(s, attr=NUMPY) if s.op in OPS and OPS[s.op].ordering else s,)

    return replace(function, body=rewrite(function.body, ordered))


def _extreme(name: str, op: str, bound: str) -> Combine:
    counted = Combine(
        name, parse_definition("def lift(m): return m, 1.0"),
        _as_numpy(parse_definition(_EXTREME.format(op=op))), (bound, "0"),
        parse_definition("def finish(value, count): return value"),
        parse_definition(_SHARE))
    plain = _as_numpy(parse_definition(f"def merge(a, b): return {name}(a, b)"))
    return Combine(name, identity(), plain, (bound,), identity(), saving=counted)


def _known_extreme(name: str, op: str, bound: str) -> Combine:
    """An extremum of numbers that are no NaN; NaN where nothing else is."""
    worst = "-" if op == ">" else ""
    lift = parse_definition(_KNOWN.format(worst=worst))
    merge = _KNOWN_MERGE.format(op=op)
    counted = Combine(
        name, lift, _as_numpy(parse_definition(merge)), (bound, "0", "0"),
        parse_definition("def finish(a, k, c): return a if k > 0.0 else nan"),
        parse_definition(_KNOWN_SHARE))
    return Combine(
        name, parse_definition(f"def lift(m): return (m if m == m else {worst}inf), "
                               "(1.0 if m == m else 0.0)"),
        _as_numpy(parse_definition("def merge(a, ka, b, kb): return "
                                   f"(a if a {op} b else b), ka + kb")), (bound, "0"),
        parse_definition("def finish(a, k): return a if k > 0.0 else nan"),
        saving=counted)


def _known_mean() -> Combine:
    return Combine(
        "nanmean", parse_definition(
            "def lift(m): return (m if m == m else 0.0), (1.0 if m == m else 0.0)"),
        parse_definition("def merge(a, na, b, nb): return a + b, na + nb"), ("0", "0"),
        parse_definition("def finish(total, count): return total / count"),
        parse_definition("def cotangent(m, total, count, g, gn):\n"
                         "    return g if m == m else 0.0"))


def _arg(name: str, op: str, bound: str) -> Combine:
    return Combine(name, parse_definition("def lift(m, index): return m, index"),
                   _as_numpy(parse_definition(_ARG.format(op=op))), (bound, "0"),
                   parse_definition("def finish(value, index): return index"),
                   indexed=True)


def _prod() -> Combine:
    lift = parse_definition(
        "def lift(m):\n    zero = m if m == 0 else 0\n"
        "    return m, 1 if m == 0 else 0, m if m != 0 else 1, zero, zero")
    merge = parse_definition(
        "def merge(a, za, na, fa, sa, b, zb, nb, fb, sb): "
        "return a * b, za + zb, na * nb, fa + fb, sa + sb")
    finish = parse_definition("def finish(a, z, n, f, s): return a")
    counted = Combine("prod", lift, merge, ("1", "0", "1", "0", "0"), finish,
                      parse_definition(_PROD), widen=True)
    plain = parse_definition("def merge(a, b): return a * b")
    return Combine("prod", identity(), plain, ("1",), identity(), saving=counted,
                   widen=True)


def _logsumexp() -> Combine:
    return Combine(
        "logsumexp", parse_definition("def lift(m): return float(m), 1.0"),
        parse_definition(_LOGSUMEXP), ("lowest", "0"),
        parse_definition("def finish(top, total): return top + log(total)"),
        parse_definition(_SOFTMAX))


def _welford() -> Combine:
    return Combine(
        "welford", parse_definition("def lift(m): return 1.0, float(m), 0.0"),
        parse_definition(_WELFORD), ("0", "0", "0"),
        parse_definition("def finish(n, mean, squares): return mean, squares / n"),
        parse_definition(_MOMENTS))


def _logical(name: str, op: str, neutral: str) -> Combine:
    return Combine(name, parse_definition("def lift(m): return m != 0"),
                   parse_definition(f"def merge(a, b): return a {op} b"), (neutral,),
                   identity())


_MAKERS: dict[str, Callable[[], Combine]] = {
    "sum": sum_combine, "prod": _prod, "logsumexp": _logsumexp, "welford": _welford,
    "max": lambda: _extreme("max", ">", "lowest"),
    "min": lambda: _extreme("min", "<", "highest"),
    "nanmax": lambda: _known_extreme("nanmax", ">", "lowest"),
    "nanmin": lambda: _known_extreme("nanmin", "<", "highest"),
    "nanmean": _known_mean,
    "argmax": lambda: _arg("argmax", ">", "lowest"),
    "argmin": lambda: _arg("argmin", "<", "highest"),
    "all": lambda: _logical("all", "and", "1"),
    "any": lambda: _logical("any", "or", "0"),
}


class _Combines(Mapping[str, Combine]):
    """Each is parsed when it is first asked for: few processes need them all."""

    def __getitem__(self, name: str) -> Combine:
        return _made(name)

    def __contains__(self, name: object) -> bool:
        return name in _MAKERS

    def __iter__(self) -> Iterator[str]:
        return iter(_MAKERS)

    def __len__(self) -> int:
        return len(_MAKERS)


@lru_cache(maxsize=len(_MAKERS))
def _made(name: str) -> Combine:
    return _MAKERS[name]()


#: The combines of reductions and stages, by name.
COMBINES: Mapping[str, Combine] = _Combines()
