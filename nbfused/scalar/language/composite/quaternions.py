"""Quaternions ``x, y, z, w``, of which `w` is the real part: rotations of space."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from ..vocabulary import OPS
from .arithmetic import COMPOSITES, Composite, function, sqrt, where
from .vectors import vec3

__all__ = ["conjugate", "quat", "quat_from_axis_angle", "quat_identity",
           "quat_to_matrix", "rotate", "rotate_inv", "slerp"]

#: The square of the sine below which `slerp` goes along the chord: an arc so short
#: differs from it by less than a rounding of float32.
_NEAR = 1e-6


class quat(Composite, namedtuple("quat", "x y z w")):
    """A quaternion: the vector part ``.x``, ``.y``, ``.z`` and the real part ``.w``.

    ``p * q`` is the product of Hamilton; ``+ -`` and ``*``, ``/`` by a number are
    componentwise.  `rotate` turns a `vec3` by one of length 1.

    Examples
    --------
    >>> import math, nbfused as nf
    >>> q = nf.quat_from_axis_angle(nf.vec3(0.0, 0.0, 1.0), math.pi / 2)
    >>> [round(x, 6) for x in nf.rotate(q, nf.vec3(1.0, 0.0, 0.0))]
    [0.0, 1.0, 0.0]
    """

    __slots__ = ()
    shape = (4,)

    @property
    def vector(self) -> Any:
        """The vector part."""
        return vec3(self.x, self.y, self.z)

    def conjugate(self) -> Any:
        """The quaternion with the vector part turned round."""
        return quat(-self.x, -self.y, -self.z, self.w)

    def _hint(self, sign: str) -> str:
        return "; nf.rotate(q, v) turns a vec3" if sign == "*" else super()._hint(sign)

    def __mul__(self, other: Any) -> Any:
        if not isinstance(other, quat):
            return super().__mul__(other)
        a, b = self, other
        return quat(a.w*b.x + a.x*b.w + a.y*b.z - a.z*b.y,
                    a.w*b.y - a.x*b.z + a.y*b.w + a.z*b.x,
                    a.w*b.z + a.x*b.y - a.y*b.x + a.z*b.w,
                    a.w*b.w - a.x*b.x - a.y*b.y - a.z*b.z)


_QUAT, _VEC3, _NUMBER = ("quat",), ("vec3",), ("number",)
_sin, _cos, _acos = OPS["sin"], OPS["cos"], OPS["acos"]


def _cross(a: Any, b: Any) -> Any:
    return vec3(a.y*b.z - a.z*b.y, a.z*b.x - a.x*b.z, a.x*b.y - a.y*b.x)


@function(_QUAT, doc="A quaternion with its vector part turned round: of length 1, the "
                     "inverse.")
def conjugate(q: Any) -> Any:
    """``-x, -y, -z, w``."""
    return q.conjugate()


@function(_QUAT, _VEC3, doc="A vector turned by a quaternion of length 1.")
def rotate(q: Any, v: Any) -> Any:
    """The vector part of ``q v conjugate(q)``."""
    t = 2 * _cross(q.vector, v)
    return v + q.w * t + _cross(q.vector, t)


@function(_QUAT, _VEC3, doc="A vector turned back by a quaternion of length 1.")
def rotate_inv(q: Any, v: Any) -> Any:
    """The vector part of ``conjugate(q) v q``."""
    t = 2 * _cross(q.vector, v)
    return v - q.w * t + _cross(q.vector, t)


@function(doc="The quaternion that turns nothing: 0, 0, 0, 1.")
def quat_identity() -> Any:
    """The real number 1."""
    return quat(0.0, 0.0, 0.0, 1.0)


@function(_VEC3, _NUMBER, doc="""The rotation about an axis by an angle.

The axis has length 1, the angle is in radians.
""")
def quat_from_axis_angle(axis: Any, angle: Any) -> Any:
    """``sin(angle/2) * axis, cos(angle/2)``."""
    half = 0.5 * angle
    return quat(*(axis * _sin(half)), _cos(half))


@function(_QUAT, doc="The matrix of the rotation by a quaternion of length 1.")
def quat_to_matrix(q: Any) -> Any:
    """The turned axes are the columns."""
    x, y, z, w = q
    return COMPOSITES["mat33"](
        1 - 2*(y*y + z*z), 2*(x*y - z*w), 2*(x*z + y*w),
        2*(x*y + z*w), 1 - 2*(x*x + z*z), 2*(y*z - x*w),
        2*(x*z - y*w), 2*(y*z + x*w), 1 - 2*(x*x + y*y))


@function(_QUAT, _QUAT, _NUMBER, doc="""The rotation at `t` on the way between two.

Both have length 1; so has what lies between.  Of the two ways it goes the shorter one,
and between rotations that are nearly the same along the chord.
""")
def slerp(a: Any, b: Any, t: Any) -> Any:
    """Spherical linear interpolation."""
    cosine = a.x*b.x + a.y*b.y + a.z*b.z + a.w*b.w
    sign = where(cosine < 0, -1.0, 1.0)
    cosine = sign * cosine
    square = 1 - cosine*cosine
    far = square > _NEAR
    sine = sqrt(where(far, square, 1.0))
    angle = _acos(where(far, cosine, 0.0))
    first = where(far, _sin((1 - t)*angle) / sine, 1 - t)
    second = where(far, _sin(t*angle) / sine, t)
    return a * first + b * (sign * second)
