"""Random masks by a counter-based generator: equal on every backend."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

from ..arrays.detect import dtype_of, is_array, is_symbolic
from ..arrays.traced import TracedNumber
from ..autograd import apply
from ..errors import KernelTypeError, RangeError
from ..op import AnyArray
from ..op.base import check_operand, fraction, whole_number
from ..scalar.language import names as nb
from ..scalar.parse.functions import parse
from ..scalar.typing.python_numbers import is_symbol
from ..specs import Map
from ..support.dtypes import number_kind

__all__ = ["dropout"]


def drop(x, p, seed, index):
    """Scale `x` up, or zero it with probability `p`."""
    return x / (1.0 - p) if nb.philox(seed, index) >= p else 0.0 * x


@lru_cache(maxsize=2)
def _drop(seed: Literal["scalar", "element"]) -> Map:
    return Map(parse(drop), ("element", "scalar", seed, "index"))


def _is_traced(seed: Any) -> bool:
    """Whether a seed is an integer of JAX's ``jit`` and the like: not yet known."""
    if not is_array(seed) or not is_symbolic(seed):
        return False
    if tuple(seed.shape) or number_kind(dtype_of(seed)) not in "iu":
        raise KernelTypeError(
            f"dropout: 'seed' is traced, of shape {tuple(seed.shape)} and dtype "
            f"{dtype_of(seed)}; expected one integer: pass the number of the step, or "
            "one that jax.random.bits draws with the key")
    return True


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
        backend and for every layout of the same shape.  One that JAX traces, or that
        a program of PyTorch leaves open, is not checked.
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
    kind: Literal["scalar", "element"] = "scalar"
    if isinstance(seed, TracedNumber):
        seed.record_check(_checked)
    elif _is_traced(seed):
        kind = "element"
    elif not is_symbol(seed):  # of torch.compile's a new value would compile again
        seed = _checked(seed)
    return apply(_drop(kind), [x, p, seed], out=outs, names=("x", "p", "seed"))[0]
