"""Activation functions, finite with finite derivatives for finite arguments.

NaN gives NaN.  `swish`, `silu`, `mish`, `hard_swish` and `gelu` are NaN at -inf, where
their formulas multiply it by zero.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from ..errors import KernelTypeError
from ..op import AnyArray, Case, Operand, elementwise, op
from ..op.base import check_operand
from ..scalar.language import names as nb

__all__ = [
    "elu", "geglu", "gelu", "hard_swish", "leaky_relu", "log_sigmoid", "mish", "relu",
    "selu", "sigmoid", "silu", "softplus", "swiglu", "swish",
]

WIDE = Case(domains=((-20.0, 20.0),))
KINKED = Case(domains=((-20.0, 20.0),))
_ERFC = np.vectorize(math.erfc, otypes=[float])


def _sigmoid(x):
    return np.exp(-np.logaddexp(0.0, -np.asarray(x)))


@op(lambda x: np.where(x <= 0, 0.0, x), KINKED)
@elementwise
def relu(x):
    """``max(x, 0)``; derivative 0 at 0, NaN stays NaN."""
    return nb.relu(x)


@op(lambda x, slope=0.01: np.maximum(x, 0) + slope * np.minimum(x, 0), KINKED,
    Case(kwargs={"slope": 0.2}))
@elementwise
def leaky_relu(x, slope=0.01):
    """`x` where positive, ``slope * x`` elsewhere; derivative `slope` at 0.

    Source: Maas, Hannun, Ng 2013, "Rectifier nonlinearities improve neural network
    acoustic models".
    """
    return x if x > 0 else slope * x


@op(lambda x, alpha=1.0: np.where(x > 0, x, alpha * (np.exp(np.minimum(x, 0)) - 1)),
    KINKED, Case(kwargs={"alpha": 0.7}))
@elementwise
def elu(x, alpha=1.0):
    """`x` where positive, ``alpha * (exp(x) - 1)`` elsewhere; derivative `alpha` at 0.

    Source: Clevert, Unterthiner, Hochreiter 2015, arXiv:1511.07289.
    """
    return x if x > 0 else alpha * nb.expm1(x)


@op(lambda x: 1.0507009873554805 * np.where(
    x > 0, x, 1.6732632423543772 * (np.exp(np.minimum(x, 0)) - 1)), KINKED)
@elementwise
def selu(x):
    """The self-normalising `elu`.

    Source: Klambauer et al. 2017, arXiv:1706.02515 (scale and alpha from its code).
    """
    return 1.0507009873554805 * (x if x > 0 else 1.6732632423543772 * nb.expm1(x))


@op(_sigmoid, WIDE)
@elementwise
def sigmoid(x):
    """``1 / (1 + exp(-x))`` without overflow at either end; 0 at -inf, 1 at inf."""
    return nb.sigmoid(x)


@op(lambda x: -np.logaddexp(0.0, -x), WIDE)
@elementwise
def log_sigmoid(x):
    """``log(sigmoid(x))`` without underflow: about `x` far below 0."""
    return nb.log_sigmoid(x)


@op(lambda x: np.logaddexp(0.0, x), WIDE)
@elementwise
def softplus(x):
    """``log(1 + exp(x))`` without overflow: about `x` far above 0."""
    return nb.softplus(x)


@op(lambda x, beta=1.0: x * _sigmoid(beta * x), WIDE, Case(kwargs={"beta": 1.5}))
@elementwise
def swish(x, beta=1.0):
    """``x * sigmoid(beta * x)``.

    Parameters
    ----------
    x : array
        Any shape; floating, or integers, which compute in floating point.
    beta : number or array
        A number is passed at run time: a new value does not recompile.

    Returns
    -------
    array
        Of the library, dtype and broadcast shape of the inputs.

    Notes
    -----
    NaN at -inf, where the formula gives ``-inf * 0``; its limit is 0.
    Source: Ramachandran, Zoph, Le 2017, arXiv:1710.05941.

    Examples
    --------
    >>> import numpy as np
    >>> swish(np.array([0.0, 1.5409961], dtype=np.float32))
    array([0.      , 1.269179], dtype=float32)
    """
    return x * nb.sigmoid(beta * x)


@op(lambda x: x * _sigmoid(x), WIDE)
@elementwise
def silu(x):
    """``x * sigmoid(x)``: `swish` with beta 1, under PyTorch's name.

    Source: Elfwing, Uchibe, Doya 2017, arXiv:1702.03118.
    """
    return nb.silu(x)


@op(lambda x: x * np.tanh(np.logaddexp(0.0, x)), WIDE)
@elementwise
def mish(x):
    """``x * tanh(softplus(x))``.

    Source: Misra 2019, arXiv:1908.08681.
    """
    return nb.mish(x)


@op(lambda x: x * np.clip((x + 3) / 6, 0, 1), KINKED)
@elementwise
def hard_swish(x):
    """``x * clip(x + 3, 0, 6) / 6``; derivative at -3 and 3 the mean of both sides.

    Source: Howard et al. 2019, arXiv:1905.02244.
    """
    return x * (min(max(x + 3.0, 0.0), 6.0) / 6.0)  # integers do not wrap around


@elementwise
def gelu_erf(x):
    """``x * (1 + erf(x / sqrt(2))) / 2``."""
    return nb.gelu_erf(x)


@elementwise
def gelu_tanh(x):
    """The approximation of `gelu` by tanh."""
    return nb.gelu_tanh(x)


def _gelu(x, approximate="none"):
    if approximate == "none":
        return x * 0.5 * _ERFC(-x / math.sqrt(2))
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


# The left tail multiplies the rounding of erfc's argument by its condition, x * x.
@op(_gelu, WIDE, Case(kwargs={"approximate": "tanh"}), tolerance=512.0,
    scalar=gelu_erf)
def gelu(x: Operand, approximate: Literal["none", "tanh"] = "none", *,
         out: AnyArray | None = None) -> AnyArray:
    """``x * Phi(x)``, Phi the normal distribution function.

    Parameters
    ----------
    x : array
        Any shape, floating.
    approximate : {"none", "tanh"}
        Exact, by erf, or ``x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x**3)))``.
    out : array, optional
        Where to store.

    Returns
    -------
    array

    Raises
    ------
    KernelTypeError
        Another `approximate`.

    Notes
    -----
    As an epilogue it is the exact one.
    Source: Hendrycks, Gimpel 2016, arXiv:1606.08415.

    Examples
    --------
    >>> import numpy as np
    >>> gelu(np.array([-1.0, 0.0, 1.0])).round(4)
    array([-0.1587,  0.    ,  0.8413])
    """
    kernels = {"none": gelu_erf, "tanh": gelu_tanh}
    check_operand(x, "gelu", "x")
    if not isinstance(approximate, str) or approximate not in kernels:
        raise KernelTypeError("gelu: 'approximate' must be 'none' or 'tanh', got "
                              f"{approximate!r}")
    return kernels[approximate](x, out=out)


@op(lambda x, gate: x * (gate * _sigmoid(gate)), Case())
@elementwise
def swiglu(x, gate):
    """``x * silu(gate)``: a gated unit, its two halves given apart.

    Source: Shazeer 2020, arXiv:2002.05202.
    """
    return x * nb.silu(gate)


@op(lambda x, gate: x * _gelu(gate), Case())
@elementwise
def geglu(x, gate):
    """``x * gelu(gate)`` with the exact gelu, the two halves given apart.

    Source: Shazeer 2020, arXiv:2002.05202.
    """
    return x * nb.gelu_erf(gate)
