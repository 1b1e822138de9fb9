"""Fourier transforms of the caller's library.

They give complex numbers, whose gradients are not defined here yet: a tracked argument
is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...autograd import Variable
from ...errors import NotDifferentiableError
from ..base import axes_of, implements, shape_of
from ..joining import roll
from ..library import native, without_gradient

__all__: list[str] = []

_ALONG = "fft ifft rfft irfft hfft ihfft"
_OVER = "fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn"


def _refuse_tracked(name: str, a: Any) -> None:
    if isinstance(a, Variable) and a.requires_grad:
        raise NotDifferentiableError(
            f"numpy.fft.{name}: the argument requires grad, and nbfused has no "
            "derivative of Fourier transforms; use detach(), or an nf.Function with a "
            "rule")


def _along(name: str) -> Callable[..., Any]:
    compute = without_gradient(f"fft.{name}", lambda x, **options: native(
        f"fft.{name}", x)(x, **options))

    def call(a: Any, n: int | None = None, axis: int = -1, norm: Any = None) -> Any:
        _refuse_tracked(name, a)
        return compute(a, n=n, axis=axis, norm=norm)

    call.__name__ = call.__qualname__ = name
    return implements(f"fft.{name}")(call)


def _over(name: str) -> Callable[..., Any]:
    compute = without_gradient(f"fft.{name}", lambda x, **options: native(
        f"fft.{name}", x)(x, **options))
    two = name.endswith("2")

    def call(a: Any, s: Any = None, axes: Any = (-2, -1) if two else None,
             norm: Any = None) -> Any:
        _refuse_tracked(name, a)
        return compute(a, s=s, axes=axes, norm=norm)

    call.__name__ = call.__qualname__ = name
    return implements(f"fft.{name}")(call)


for _name in _ALONG.split():
    _along(_name)
for _name in _OVER.split():
    _over(_name)


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
