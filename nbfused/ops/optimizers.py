"""Optimiser steps, in place and in one launch each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..arrays import dtype_of, is_array
from ..arrays.traced import Traced, TracedNumber
from ..autograd import Variable, apply, no_grad
from ..autograd.versions import note_write
from ..errors import KernelTypeError, RangeError, ShapeError
from ..op import AnyArray
from ..op.base import fraction, non_negative, real_number, whole_number
from ..op.cached_call import fast_calls
from ..op.elementwise import Elementwise, cast, elementwise

__all__ = ["adam_step", "sgd_step"]


@elementwise
def sgd_update(param, grad, lr, weight_decay):
    """The parameter after a step of gradient descent."""
    return param - lr * (grad + weight_decay * param)


@elementwise
def momentum_update(param, grad, velocity, lr, momentum, weight_decay):
    """Parameter and velocity after a step of SGD with momentum."""
    new = momentum * velocity + (grad + weight_decay * param)
    return param - lr * new, new


@elementwise
def adam_update(param, grad, m, v, lr, beta1, beta2, eps, decay, scale1, scale2):
    """Parameter and moments after a step of Adam, with bias corrections."""
    first = beta1 * m + (1 - beta1) * grad
    second = beta2 * v + (1 - beta2) * (grad * grad)
    step = first * scale1 / (np.sqrt(second * scale2) + eps)
    return param - lr * (step + decay * param), first, second


#: Direct calls of an update, by its name and the types of its arrays.
_DIRECT: dict[tuple[Any, ...], Callable[..., Any]] = {}


def _taken(update: Elementwise, outs: tuple[Any, ...], arrays: Sequence[Any],
           numbers: tuple[Any, ...]) -> bool:
    """Take a step as one like it was taken before; False if it has to be checked.

    The numbers are checked.
    """
    direct = _DIRECT.get((update.__name__, *map(type, arrays)))
    if direct is None:
        return False
    shape = arrays[0].shape
    for x in arrays:
        if x.shape != shape:
            return False
    if direct(*outs, *arrays, *numbers) is None:
        return False
    note_write(outs)
    return True


def _take(update: Elementwise, outs: tuple[Any, ...], arrays: Sequence[Any],
          numbers: tuple[Any, ...]) -> None:
    """Take a step on arrays that were checked."""
    spec = update.spec(("element",) * len(arrays) + ("scalar",) * len(numbers))
    values = (*arrays, *numbers)
    with no_grad():
        apply(spec, values, out=outs, names=update.parameters.names)
    direct, _ = fast_calls(spec, values, outs, (), update.parameters.names)
    if direct is not None:
        _DIRECT[(update.__name__, *map(type, arrays))] = direct


def _arrays(what: str, **given: AnyArray) -> tuple[Any, ...]:
    """The arrays behind the arguments, checked to have one shape."""
    found = {n: x.data if isinstance(x, Variable) and not isinstance(x, Traced) else x
             for n, x in given.items()}
    for name, x in found.items():
        if not is_array(x) and not isinstance(x, Traced):
            raise KernelTypeError(f"{what}: '{name}' must be an array or a Variable, "
                                  f"got {type(x).__name__}; make one with nf.array")
        if dtype_of(x).kind in "biu" and name == "grad":  # its square would wrap around
            found[name] = cast(dtype_of(found["param"]).name)(x)
        elif dtype_of(x).kind in "biu":
            raise KernelTypeError(f"{what}: '{name}' has dtype {dtype_of(x)}; expected "
                                  "a floating one, convert with astype")
        if tuple(x.shape) != tuple(found["param"].shape):
            raise ShapeError(
                f"{what}: '{name}' of shape {tuple(x.shape)} does not fit 'param' of "
                f"shape {tuple(found['param'].shape)}; expected equal shapes")
    return tuple(found.values())


def _plain(x: AnyArray) -> Any:
    """The array of a Variable that is not traced."""
    return x._value if type(x) is Variable else x


def sgd_step(param: AnyArray, grad: AnyArray, velocity: AnyArray | None = None, *,
             lr: float, momentum: float = 0.0, weight_decay: float = 0.0) -> None:
    """Take a step of gradient descent on `param`, in place, in one launch.

    Parameters
    ----------
    param, grad : array or Variable
        Of one shape; on Variables the step is not recorded.
    velocity : array, optional
        State of the same shape, zeros at first, changed in place; `momentum` needs it.
    lr, momentum, weight_decay : float
        Passed at run time: new values do not recompile.  `weight_decay` times `param`
        is added to the gradient.

    Raises
    ------
    KernelTypeError
        `momentum` without `velocity`, or something is no array.
    ShapeError
        Shapes differ.

    Examples
    --------
    >>> import numpy as np
    >>> p = np.ones(2)
    >>> sgd_step(p, np.array([1.0, -1.0]), lr=0.5)
    >>> p
    array([0.5, 1.5])
    """
    rate, momentum, decay = (
        real_number(x, "sgd_step", name) for x, name in (
            (lr, "lr"), (momentum, "momentum"), (weight_decay, "weight_decay")))
    if velocity is None:
        if momentum:
            raise KernelTypeError("sgd_step: 'momentum' needs 'velocity', an array of "
                                  "zeros of the shape of 'param'; got None")
        p = _plain(param)
        if not _taken(sgd_update, (p,), (p, _plain(grad)), (rate, decay)):
            p, g = _arrays("sgd_step", param=param, grad=grad)
            _take(sgd_update, (p,), (p, g), (rate, decay))
        return
    numbers = (rate, momentum, decay)
    p, v = _plain(param), velocity
    if not _taken(momentum_update, (p, v), (p, _plain(grad), v), numbers):
        p, g, v = _arrays("sgd_step", param=param, grad=grad, velocity=velocity)
        _take(momentum_update, (p, v), (p, g, v), numbers)


def adam_step(param: AnyArray, grad: AnyArray, m: AnyArray, v: AnyArray, *,
              lr: float = 1e-3, beta1: float = 0.9, beta2: float = 0.999,
              eps: float = 1e-8, step: int, weight_decay: float = 0.0) -> None:
    """Take a step of Adam, in place, in one launch.

    Parameters
    ----------
    param, grad : array or Variable
        Of one shape; on Variables the step is not recorded.
    m, v : array
        First and second moments, zeros at first, changed in place.
    lr, beta1, beta2, eps, weight_decay : float
        Passed at run time: new values do not recompile.  `weight_decay` is decoupled.
    step : int
        1 for the first step; corrects the moments' bias.

    Raises
    ------
    RangeError
        `step` is less than 1, a beta is outside [0, 1), or `eps` is negative.
    KernelTypeError
        Something is no array.
    ShapeError
        Shapes differ.

    Notes
    -----
    Source: Kingma, Ba 2014, arXiv:1412.6980; decay as in Loshchilov, Hutter 2017,
    arXiv:1711.05101.

    Examples
    --------
    >>> import numpy as np
    >>> p, m, v = np.ones(2), np.zeros(2), np.zeros(2)
    >>> adam_step(p, np.array([1.0, -1.0]), m, v, lr=0.1, step=1)
    >>> p.round(6)
    array([0.9, 1.1])
    """
    # Usual numbers are checked without calls: a step has few, of few microseconds.
    if not (type(step) is int and 0 < step < 1 << 63 and type(lr) is float and lr == lr
            and type(beta1) is float and 0.0 <= beta1 < 1.0
            and type(beta2) is float and 0.0 <= beta2 < 1.0
            and type(eps) is float and eps >= 0.0
            and type(weight_decay) is float and weight_decay == weight_decay):
        step = step.computed(_counted) if isinstance(step, TracedNumber) else \
            _counted(step)
        lr, weight_decay = (real_number(x, "adam_step", name) for x, name in (
            (lr, "lr"), (weight_decay, "weight_decay")))
        beta1, beta2 = (fraction(x, "adam_step", name, "what is kept of a moment")
                        for x, name in ((beta1, "beta1"), (beta2, "beta2")))
        eps = non_negative(eps, "adam_step", "eps")
    numbers = (lr, beta1, beta2, eps, weight_decay,
               1.0 / (1.0 - beta1 ** step), 1.0 / (1.0 - beta2 ** step))
    p = _plain(param)
    if not _taken(adam_update, (p, m, v), (p, _plain(grad), m, v), numbers):
        p, g, m, v = _arrays("adam_step", param=param, grad=grad, m=m, v=v)
        _take(adam_update, (p, m, v), (p, g, m, v), numbers)


def _counted(step: Any) -> int:
    """Check the number of a step."""
    count = whole_number(step, "adam_step", "step")
    if count < 1:
        raise RangeError(f"adam_step: 'step' counts from 1, got {step!r}; pass the "
                         "number of this step")
    return count
