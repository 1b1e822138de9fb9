"""Vectors of two, three and four numbers: values of kernels and scalar functions."""

from __future__ import annotations

import math
import operator
from collections import namedtuple
from collections.abc import Callable
from typing import Any

from .threads import _Form

__all__ = ["cross", "dot", "length", "normalize", "vec2", "vec3", "vec4"]


class _Arithmetic(tuple[Any, ...]):
    """Componentwise arithmetic, with vectors of as many components and with numbers."""

    __slots__ = ()
    __nbfused_vector__ = True

    def _each(self, other: Any, act: Callable[[Any, Any], Any]) -> Any:
        many = isinstance(other, _Arithmetic)
        if many and len(other) != len(self):
            raise TypeError(f"vectors of {len(self)} and of {len(other)} components "
                            "do not go together")
        return type(self)(*map(act, self, other if many else (other,) * len(self)))

    def __add__(self, other: Any) -> Any:
        return self._each(other, operator.add)

    def __sub__(self, other: Any) -> Any:
        return self._each(other, operator.sub)

    def __rsub__(self, other: Any) -> Any:
        return self._each(other, lambda a, b: b - a)

    def __mul__(self, other: Any) -> Any:
        return self._each(other, operator.mul)

    def __truediv__(self, other: Any) -> Any:
        return self._each(other, operator.truediv)

    def __rtruediv__(self, other: Any) -> Any:
        return self._each(other, lambda a, b: b / a)

    def __neg__(self) -> Any:
        return type(self)(*map(operator.neg, self))

    __radd__, __rmul__ = __add__, __mul__


class vec2(_Arithmetic, namedtuple("vec2", "x y")):
    """A vector of two numbers: ``.x``, ``.y``, arithmetic; see `vec3`."""

    __slots__ = ()


class vec3(_Arithmetic, namedtuple("vec3", "x y z")):
    """A vector of three numbers.

    In a kernel ``vec3(a, b, c)``, or ``vec3(row)`` of three elements of an array with
    one axis; ``x[i] = v`` and ``x[i] += v`` store one.  ``+ - * /`` are componentwise,
    also with numbers.  An argument of a kernel may be one.

    Examples
    --------
    >>> import numpy as np, nbfused as nf
    >>> @nf.rawkernel(differentiable=True)
    ... def pushed(x, speed, h):
    ...     i = nf.grid(1)
    ...     x[i] += h * nf.normalize(nf.vec3(speed[i]))
    >>> x, speed = np.zeros((2, 3)), np.array([[3.0, 0.0, 4.0], [0.0, 2.0, 0.0]])
    >>> pushed.launch(x, speed, 10.0, dim=2)
    >>> x
    array([[ 6.,  0.,  8.],
           [ 0., 10.,  0.]])
    """

    __slots__ = ()


class vec4(_Arithmetic, namedtuple("vec4", "x y z w")):
    """A vector of four numbers: ``.x`` to ``.w``, arithmetic; see `vec3`."""

    __slots__ = ()


def _dot(a: Any, b: Any) -> Any:
    return sum(x * y for x, y in zip(a, b, strict=True))


def _cross(a: Any, b: Any) -> Any:
    return vec3(a[1]*b[2] - a[2]*b[1], a[2]*b[0] - a[0]*b[2], a[0]*b[1] - a[1]*b[0])


def _normalized(v: Any) -> Any:
    size = math.sqrt(_dot(v, v))
    return v / size if size > 0 else v * 0.0


dot: Any = _Form("dot", "dot", "The inner product of two vectors.", host=_dot)
cross: Any = _Form("cross", "cross", "The vector product of two vec3.", host=_cross)
length: Any = _Form("length", "length", "The Euclidean length of a vector.",
                    host=lambda v: math.sqrt(_dot(v, v)))
normalize: Any = _Form("normalize", "normalize",
                       "A vector of length 1 in its direction; 0 stays 0.",
                       host=_normalized)
