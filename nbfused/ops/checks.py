"""Range checks of element values, on the cpu only: they wait for the device.

Under ``NBFUSED_DEBUG=1`` they run everywhere.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..arrays import to_numpy
from ..arrays.detect import device_of, is_lazy, is_symbolic, library_of
from ..arrays.traced import Traced
from ..autograd import Variable
from ..config import config
from ..errors import KernelTypeError, RangeError

__all__ = ["check_range"]


class _Check(partial[None]):
    """A check of an array to come."""

    def applies(self, x: Any) -> bool:
        """True if arrays like `x` are looked at, with the settings of now."""
        return _is_checked(x.data if isinstance(x, Variable) else x, "x")


def _is_checked(data: Any, name: str) -> bool:
    return device_of(data, name) == "cpu" or config.debug


def check_range(indices: Any, low: int, high: int, message: str, way_out: str, *,
                name: str, ignored: int | None = None) -> Any:
    """Raise `RangeError` for a value outside ``[low, high)``, except `ignored`.

    `name` is what messages call the array.

    Returns
    -------
    array
        `indices`; of those that are lazy some that raise when they are computed.
    """
    if isinstance(indices, Traced):
        indices.record_check(_Check(check_range, low=low, high=high, message=message,
                                    way_out=way_out, name=name, ignored=ignored))
        return indices
    data = indices.data if isinstance(indices, Variable) else indices
    plain = type(data) is np.ndarray and data.flags.aligned and data.dtype.isnative
    try:
        if not prod(data.shape) or not (plain or _is_checked(data, name)):
            return indices
        host = data if plain else to_numpy(data)
    except KernelTypeError:
        if is_lazy(data):
            look = _Look(low, high, message, way_out, name, ignored)
            made = data.map_blocks(look, dtype=data.dtype, meta=data._meta)
            return Variable(made) if isinstance(indices, Variable) else made
        if not is_symbolic(data):
            raise
        if library_of(data).name == "jax":
            return indices  # nobody could raise: as elsewhere in JAX there is no check
        if config.debug or data.device.type == "cpu":
            from ..autograd.compilers.torch_calls import check_later

            check_later(data, low, high, message, ignored)
        return indices
    if low <= np.minimum.reduce(host, axis=None) and \
            np.maximum.reduce(host, axis=None) < high:
        return indices
    outside = (host < low) | (host >= high)
    if ignored is not None:
        outside &= host != ignored
    if outside.any():
        raise RangeError(f"{message}: got {int(host[outside].flat[0])}, expected "
                         f"values in [{low}, {high}); {way_out}")
    return indices


class _Look(NamedTuple):
    """The check of the chunks of a lazy array."""

    low: int
    high: int
    message: str
    way_out: str
    name: str
    ignored: int | None

    def __call__(self, chunk: Any) -> Any:
        """The chunk itself."""
        return check_range(chunk, self.low, self.high, self.message, self.way_out,
                           name=self.name, ignored=self.ignored)
