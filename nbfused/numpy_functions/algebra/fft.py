"""Fourier transforms of the caller's library, with their rules.

A transform is linear, and its matrix symmetric: it transposes itself.  Where a side is
real, half of the frequencies stand for the others too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..base import axes_of, axis_of, floating, implements, ops, shape_of, stored
from ..complex_parts import conj, real
from ..joining import pad, roll
from ..library import computed, native

__all__: list[str] = []

#: The norm of a transform that is scaled as the one in the other direction.
_OTHER = {None: "forward", "backward": "forward", "forward": "backward",
          "ortho": "ortho"}

Extents = tuple[int, ...]


def _forward(name: str) -> Callable[..., Any]:
    def forward(x: Any, s: Extents, axes: Extents, norm: Any) -> Any:
        return native(f"fft.{name}", x)(x, s, axes, norm)

    return forward


def _fitted(x: Any, shape: Sequence[int]) -> Any:
    """`x` cut, or filled up with zeros, to a shape."""
    x = ops.getitem(x, tuple(slice(0, n) for n in shape))
    missing = [(0, n - m) for n, m in zip(shape, shape_of(x), strict=True)]
    return pad(x, missing) if any(n for _, n in missing) else x


def _own_rule(name: str) -> Callable[..., Any]:
    def pull(g: Any, y: Any, x: Any, s: Extents, axes: Extents, norm: Any) -> Any:
        return (_fitted(_TRANSFORMS[name](g[0], s=s, axes=axes, norm=norm),
                        shape_of(x[0])),)

    return pull


def _of_real(g: Any, y: Any, x: Any, s: Extents, axes: Extents, norm: Any) -> Any:
    """The frequencies that were left out have no cotangent."""
    whole = _TRANSFORMS["fftn"](g[0], s=s, axes=axes, norm=norm)
    return (_fitted(real(whole), shape_of(x[0])),)


def _to_real(g: Any, y: Any, x: Any, s: Extents, axes: Extents, norm: Any) -> Any:
    """A frequency that stands for another too counts twice."""
    made = conj(_TRANSFORMS["rfftn"](g[0], s=s, axes=axes, norm=_OTHER[norm]))
    twice = ops.getitem(made, _along(axes[-1], slice(1, (s[-1] + 1) // 2)))
    other = ops.getitem(made, _along(axes[-1], slice((s[-1] + 1) // 2, None)))
    first = ops.getitem(made, _along(axes[-1], slice(0, 1)))
    parts = [first, ops.multiply(twice, 2.0), other] if s[-1] > 1 else [made]
    return (_fitted(ops.concatenate(parts, axis=axes[-1]), shape_of(x[0])),)


def _along(axis: int, where: slice) -> tuple[Any, ...]:
    """An index of one axis, counted from the end."""
    return (..., where, *(slice(None),) * (-1 - axis))


_TRANSFORMS: dict[str, Callable[..., Any]] = {
    name: computed(f"fft.{name}", _forward(name), rule) for name, rule in (
        ("fftn", _own_rule("fftn")), ("ifftn", _own_rule("ifftn")),
        ("rfftn", _of_real), ("irfftn", _to_real))}


def _transformed(name: str, a: Any, s: Any, axes: Any, norm: Any) -> Any:
    """A transform over axes; `s` are extents, those of frequencies for ``irfftn``."""
    ndim, shape = len(shape_of(a)), shape_of(a)
    if axes is None and s is not None:
        axes = tuple(range(ndim - len(s), ndim))
    axes = tuple(axis_of(k, ndim) for k in (range(ndim) if axes is None else axes))
    if s is not None and len(s) != len(axes):
        raise ValueError(f"numpy.fft: 's' has {len(s)} extents, 'axes' names "
                         f"{len(axes)}; give one for each")
    if norm not in _OTHER:
        raise ValueError(f"numpy.fft: norm is {norm!r}, expected 'backward', 'ortho' "
                         "or 'forward'")
    extents = [None if s is None or s[k] in (None, -1) else int(s[k])
               for k in range(len(axes))]
    usual = [shape[k] for k in axes]
    if name == "irfftn":
        usual[-1] = 2 * (usual[-1] - 1)
    full = tuple(m if n is None else n for n, m in zip(extents, usual, strict=True))
    return _TRANSFORMS[name](floating(a), s=full, axes=tuple(k - ndim for k in axes),
                             norm=norm)


def _of_axis(name: str, transform: str) -> None:
    def call(a: Any, n: int | None = None, axis: int = -1, norm: Any = None,
             out: Any = None) -> Any:
        return stored(_transformed(transform, a, (n,), (axis,), norm), out)

    call.__name__ = call.__qualname__ = name
    implements(f"fft.{name}")(call)


def _of_axes(name: str, transform: str, usual: Any) -> None:
    def call(a: Any, s: Any = None, axes: Any = usual, norm: Any = None,
             out: Any = None) -> Any:
        return stored(_transformed(transform, a, s, axes, norm), out)

    call.__name__ = call.__qualname__ = name
    implements(f"fft.{name}")(call)


for _prefix in ("", "i", "r", "ir"):
    _of_axis(f"{_prefix}fft", f"{_prefix}fftn")
    for _end, _axes in (("2", (-2, -1)), ("n", None)):
        _of_axes(f"{_prefix}fft{_end}", f"{_prefix}fftn", _axes)


@implements("fft.hfft")
def hfft(a: Any, n: int | None = None, axis: int = -1, norm: Any = None,
         out: Any = None) -> Any:
    """The real transform of frequencies whose negative ones are conjugates."""
    return stored(_transformed("irfftn", conj(a), (n,), (axis,), _OTHER.get(
        norm, norm)), out)


@implements("fft.ihfft")
def ihfft(a: Any, n: int | None = None, axis: int = -1, norm: Any = None,
          out: Any = None) -> Any:
    """The inverse of `hfft`."""
    return stored(conj(_transformed("rfftn", a, (n,), (axis,), _OTHER.get(norm, norm))),
                  out)


@implements("fft.fftshift")
def fftshift(x: Any, axes: Any = None) -> Any:
    """The frequency 0 in the middle of axes."""
    found = axes_of(axes, len(shape_of(x)))
    return roll(x, tuple(shape_of(x)[k] // 2 for k in found), found)


@implements("fft.ifftshift")
def ifftshift(x: Any, axes: Any = None) -> Any:
    """The frequency 0 from the middle of axes to their beginning."""
    found = axes_of(axes, len(shape_of(x)))
    return roll(x, tuple(-(shape_of(x)[k] // 2) for k in found), found)
