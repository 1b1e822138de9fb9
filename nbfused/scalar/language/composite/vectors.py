"""Vectors of two, three and four numbers."""

from __future__ import annotations

import operator
from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any

from ..vocabulary import OPS
from .arithmetic import COMPOSITES, Composite, function, named, sqrt, where

__all__ = ["VECTORS", "Vector", "cross", "dot", "length", "normalize", "vec2", "vec3",
           "vec4", "vector_of"]

VECTORS = ("vec2", "vec3", "vec4")


class Vector(Composite):
    """Base of vectors: all of ``+ - * /`` are componentwise, also with numbers."""

    __slots__ = ()

    @classmethod
    def _taken_apart(cls, args: tuple[Any, ...]) -> tuple[Any, ...]:
        found = super()._taken_apart(args)
        single = len(found) == 1 and not isinstance(found[0], tuple)
        return found * len(cls._fields) if single else found

    def _same(self, other: Any, sign: str) -> None:
        if isinstance(other, Vector) and len(other) != len(self):
            raise TypeError(f"vectors of {len(self)} and of {len(other)} components do "
                            "not go together")
        super()._same(other, sign)

    def _each(self, other: Any, act: Callable[[Any, Any], Any], sign: str) -> Any:
        if isinstance(other, tuple):
            self._same(other, sign)
            return self._make(map(act, self, other))
        return self._make(act(a, other) for a in self)

    def __mul__(self, other: Any) -> Any:
        return self._each(other, operator.mul, "*")

    def __rmul__(self, other: Any) -> Any:
        return self._each(other, lambda a, b: b * a, "*")

    def __truediv__(self, other: Any) -> Any:
        return self._each(other, operator.truediv, "/")

    def __rtruediv__(self, other: Any) -> Any:
        return self._each(other, lambda a, b: b / a, "/")

    def __abs__(self) -> Any:
        return self._make(map(abs, self))

    def __nbfused_op__(self, name: str, args: Sequence[Any]) -> Any:
        """A scalar function of each component: ``nf.exp(v)``."""
        for a in args:
            if isinstance(a, tuple):
                self._same(a, f"in {name}() with")
        columns = [a if isinstance(a, tuple) else (a,) * len(self) for a in args]
        return self._make(OPS[name](*c) for c in zip(*columns, strict=True))

    def __getattr__(self, name: str) -> Any:
        """Several components: ``v.xy``, ``v.zyx``."""
        kind = f"vec{len(name)}"
        if kind not in VECTORS or not set(name) <= set(self._fields):
            raise AttributeError(f"{named(self)} has no component {name!r}; it has "
                                 f"{', '.join(self._fields)}")
        return COMPOSITES[kind](*(getattr(self, n) for n in name))


class vec2(Vector, namedtuple("vec2", "x y")):
    """A vector of two numbers: ``.x``, ``.y``, arithmetic; see `vec3`."""

    __slots__ = ()
    shape = (2,)


class vec3(Vector, namedtuple("vec3", "x y z")):
    """A vector of three numbers.

    In a kernel ``vec3(a, b, c)``, ``vec3(a)`` with three of them, or ``vec3(row)`` of
    three elements of an array with one axis; ``x[i] = v`` and ``x[i] += v`` store one.
    ``+ - * /`` are componentwise, also with numbers; so are functions of numbers,
    ``nf.exp(v)``.  ``v.zx`` is a `vec2`, and ``v.x = a`` changes a variable in a
    kernel.  An argument of a kernel may be one; an array annotated ``nf.View[nf.vec3]``
    has them as elements.

    Examples
    --------
    >>> import numpy as np, nbfused as nf
    >>> vectors = nf.DiffView[nf.vec3]
    >>> @nf.rawkernel
    ... def pushed(x: vectors, speed: vectors, h):
    ...     i = nf.grid(1)
    ...     x[i] += h * nf.normalize(speed[i])
    >>> x, speed = np.zeros((2, 3)), np.array([[3.0, 0.0, 4.0], [0.0, 2.0, 0.0]])
    >>> pushed.launch(x, speed, 10.0, dim=2)
    >>> x
    array([[ 6.,  0.,  8.],
           [ 0., 10.,  0.]])
    """

    __slots__ = ()
    shape = (3,)


class vec4(Vector, namedtuple("vec4", "x y z w")):
    """A vector of four numbers: ``.x`` to ``.w``, arithmetic; see `vec3`."""

    __slots__ = ()
    shape = (4,)


def vector_of(parts: Sequence[Any]) -> Any:
    """A vector of as many components."""
    return COMPOSITES[f"vec{len(parts)}"](*parts)


def _total(products: Sequence[Any]) -> Any:
    found = products[0]
    for p in products[1:]:
        found = found + p
    return found


def _dot(a: Any, b: Any) -> Any:
    a._same(b, "and")
    return _total([x * y for x, y in zip(a, b, strict=True)])


_ANY = (*VECTORS, "quat")

dot: Any = function(_ANY, _ANY, name="dot", doc="""The inner product of two vectors.

Also of two quaternions.
""")(_dot)
length: Any = function(_ANY, name="length", doc="""The Euclidean length of a vector.

Also of a quaternion.
""")(lambda v: sqrt(_dot(v, v)))


@function(("vec3",), ("vec3",), doc="The vector product of two vec3.")
def cross(a: Any, b: Any) -> Any:
    """A vector that is orthogonal to both."""
    return vec3(a.y*b.z - a.z*b.y, a.z*b.x - a.x*b.z, a.x*b.y - a.y*b.x)


@function(_ANY, doc="A vector or quaternion of length 1 in its direction; 0 stays 0.")
def normalize(v: Any) -> Any:
    """Divided by its length; nothing is divided by 0."""
    square = _dot(v, v)
    size = sqrt(where(square > 0, square, 1))
    return v._make(x / size for x in v)
