"""Random masks by a counter-based generator: equal on every backend."""

from __future__ import annotations

from functools import lru_cache

from ..arrays.traced import TracedNumber
from ..autograd import apply
from ..errors import KernelTypeError, RangeError
from ..op import AnyArray
from ..op.base import check_operand, fraction, whole_number
from ..scalar.language import names as nb
from ..scalar.parse.functions import parse
from ..specs import Map

__all__ = ["dropout"]


def drop(x, p, seed, index):
    """Scale `x` up, or zero it with probability `p`."""
    return x / (1.0 - p) if nb.philox(seed, index) >= p else 0.0 * x


@lru_cache(maxsize=1)
def _drop() -> Map:
    return Map(parse(drop), ("element", "scalar", "scalar", "index"))


def _checked(seed: int) -> int:
    """Check a seed; negative ones, which elsewhere mean a new mask, are refused."""
    if isinstance(seed, bool):
        raise KernelTypeError(
            f"dropout: 'seed' must be an integer, got {seed!r}; there is no flag for "
            "training as PyTorch has: leave the call out where nothing is dropped")
    number = whole_number(seed, "dropout", "seed")
    if number < 0:
        raise RangeError(f"dropout: 'seed' must be at least 0, got {number}; for a new "
                         "mask in each call count the calls, and pass the count")
    return number


def dropout(x: AnyArray, p: float, seed: int, *,
            out: AnyArray | None = None) -> AnyArray:
    """Zero each element with probability `p`, scale the others by ``1 / (1 - p)``.

    Parameters
    ----------
    x : array
        Any shape, floating.
    p : float
        In ``[0, 1)``.
    seed : int
        At least 0, below ``2**63``.  The same seed gives the same mask, on every
        backend and for every layout of the same shape.
    out : array, optional
        Where to store.

    Returns
    -------
    array

    Raises
    ------
    RangeError
        `p` is outside ``[0, 1)``, or `seed` is negative or too large.

    Notes
    -----
    Element i is decided by Philox4x32-10 (Salmon et al. 2011) at counter i.  The
    derivative recomputes the mask; nothing is saved.  A dropped element is multiplied
    by zero: NaN and infinities give NaN.

    Examples
    --------
    >>> import numpy as np
    >>> dropout(np.ones(6), 0.5, seed=1)
    array([2., 2., 0., 2., 0., 0.])
    """
    check_operand(x, "dropout", "x")
    p = fraction(p, "dropout", "p", "the share of elements that is dropped")
    outs = None if out is None else (out,)
    if isinstance(seed, TracedNumber):
        seed.record_check(_checked)
    else:
        seed = _checked(seed)
    return apply(_drop(), [x, p, seed], out=outs, names=("x", "p", "seed"))[0]
