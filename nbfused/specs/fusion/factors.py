"""A term of a sum over a row as a factor that the row has one of, and the rest.

What multiplies every element alike may multiply their sum instead: the sum then needs
not wait for it, and the stages of a backward row that make it run in the same pass.
"""

from __future__ import annotations

from collections.abc import Collection

from ...scalar.ir.build import Builder
from ...scalar.ir.nodes import Function, Let, Literal, Value, literal
from ..vjp.functions import compose, trim

__all__ = ["factored"]

#: A value of the function, or an operation on some.
Tree = Value | tuple[str, tuple["Tree", ...]]

_ONE = literal(1.0)


def factored(function: Function, result: int,
             alike: Collection[str]) -> tuple[Function, Function] | None:
    """Two functions whose product is a result of `function`; the second the larger.

    Parameters
    ----------
    function, result
        Parameters are wired by name.
    alike
        Names whose values are the same for all elements: all that the first reads.

    Returns
    -------
    tuple of Function
        None if nothing but numbers can be taken out.
    """
    body = function.body.statements
    if not all(isinstance(s, Let) and len(s.results) == 1 for s in body):
        return None
    split = _Split({s.results[0]: s for s in body if isinstance(s, Let)}, alike)
    factor, rest = split.parts(function.results[result])
    if rest == _ONE or not split.reads(factor):
        return None
    return tuple(split.written(function, tree)  # type: ignore[return-value]
                 for tree in (factor, rest))


class _Split:
    def __init__(self, made: dict[str, Let], alike: Collection[str]) -> None:
        self.made = made
        self.constant: dict[str, bool] = {}
        for name, s in made.items():
            self.constant[name] = all(
                isinstance(a, Literal) or self.constant.get(a, a in alike)
                for a in s.args)
        self.alike = alike

    def is_constant(self, v: Value) -> bool:
        """Whether a value is the same for all elements."""
        return isinstance(v, Literal) or self.constant.get(v, v in self.alike)

    def parts(self, v: Value) -> tuple[Tree, Tree]:
        """Factor and rest of a value."""
        if self.is_constant(v):
            return v, _ONE
        s = self.made.get(v) if isinstance(v, str) else None
        if s is None:
            return _ONE, v
        parts = [self.parts(a) for a in s.args] if s.op in (
            "mul", "neg", "div", "add", "sub") else []
        match s.op:
            case "mul":
                (a, x), (b, y) = parts
                return _times(a, b), _times(x, y)
            case "neg":
                ((a, x),) = parts
                return literal(-1.0) if a == _ONE else ("neg", (a,)), x
            case "div" if self.is_constant(s.args[1]):
                a, x = parts[0]
                return ("div", (a, s.args[1])), x
            case "add" if s.args[0] == s.args[1]:
                a, x = parts[0]
                return _times(literal(2.0), a), x
            case "add" | "sub" if parts[0][0] == parts[1][0]:
                return parts[0][0], (s.op, (parts[0][1], parts[1][1]))
        return _ONE, v

    def reads(self, tree: Tree) -> bool:
        """Whether there is more in it than numbers."""
        if isinstance(tree, tuple):
            return any(map(self.reads, tree[1]))
        if isinstance(tree, Literal):
            return False
        s = self.made.get(tree)
        return s is None or any(map(self.reads, s.args))

    def written(self, function: Function, tree: Tree) -> Function:
        """The function that computes a tree."""
        def build(b: Builder) -> tuple[Value, ...]:
            done: dict[Tree, Value] = {}

            def write(t: Tree) -> Value:
                if t in done:
                    return done[t]
                if isinstance(t, tuple):
                    done[t] = b.let(t[0], *map(write, t[1]))
                elif isinstance(t, str) and t in self.made:
                    s = self.made[t]
                    done[t] = b.let(s.op, *map(write, s.args), attr=s.attr)
                else:
                    return t
                return done[t]

            return (write(tree),)

        return trim(compose(function.name, function.params, build))[0]


def _times(a: Tree, b: Tree) -> Tree:
    return b if a == _ONE else a if b == _ONE else ("mul", (a, b))
