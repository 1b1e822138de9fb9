"""The extension of Fourier transforms."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays.constructors import array
from ..autograd import Variable
from .dtypes import DEFAULTS
from .face import by_rows
from .standard import FFT

__all__ = ["fftfreq", "rfftfreq"]

_FUNCTIONS = by_rows(FFT, {}, "fft.")
globals().update(_FUNCTIONS)
__all__ += sorted(_FUNCTIONS)


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None,
            device: Any = None) -> Variable:
    """The frequencies of a Fourier transform of `n` numbers at distance `d`."""
    kind = DEFAULTS["real floating"] if dtype is None else dtype
    return Variable(array(np.fft.fftfreq(n, d), kind, device))


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None,
             device: Any = None) -> Variable:
    """The frequencies of a Fourier transform of `n` real numbers at distance `d`."""
    kind = DEFAULTS["real floating"] if dtype is None else dtype
    return Variable(array(np.fft.rfftfreq(n, d), kind, device))


def __getattr__(name: str) -> Any:
    raise AttributeError(f"nbfused.array_api.fft has no {name!r}: the standard 2024.12 "
                         "does not, either")
