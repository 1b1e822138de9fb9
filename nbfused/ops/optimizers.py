"""Optimiser steps, in place, of an array or of all arrays of a tree in one launch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..arrays import dtype_of, is_array
from ..arrays.traced import Traced, TracedNumber
from ..autograd import Variable, apply, no_grad
from ..autograd.updates import Leaves, is_tree, native, update_leaves
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
def nesterov_update(param, grad, velocity, lr, momentum, weight_decay):
    """Parameter and velocity after a step of SGD with Nesterov's momentum."""
    slope = grad + weight_decay * param
    new = momentum * velocity + slope
    return param - lr * (slope + momentum * new), new


@elementwise
def adam_update(param, grad, m, v, lr, beta1, beta2, eps, decay, scale1, scale2):
    """Parameter and moments after a step of Adam, with bias corrections."""
    first = beta1 * m + (1 - beta1) * grad
    second = beta2 * v + (1 - beta2) * np.real(np.conj(grad) * grad)
    step = first * scale1 / (np.sqrt(second * scale2) + eps)
    return param - lr * (step + decay * param), first, second


@elementwise
def adam_l2_update(param, grad, m, v, lr, beta1, beta2, eps, decay, scale1, scale2):
    """The same where the decay is part of the gradient, as it was before AdamW."""
    slope = grad + decay * param
    first = beta1 * m + (1 - beta1) * slope
    second = beta2 * v + (1 - beta2) * np.real(np.conj(slope) * slope)
    step = first * scale1 / (np.sqrt(second * scale2) + eps)
    return param - lr * step, first, second


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


def _step(what: str, update: Elementwise, given: dict[str, Any], outs: tuple[int, ...],
          numbers: tuple[Any, ...]) -> None:
    """Take a step on arrays, or on the leaves of trees, which are checked.

    `outs` are the positions of those that are changed.
    """
    if is_tree(given["param"]):
        update_leaves(update, Leaves(what, given), outs, numbers)
        return
    arrays = _arrays(what, **given)
    _take(update, tuple([arrays[k] for k in outs]), arrays, numbers)


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
    found = {n: native(x) for n, x in given.items()}
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
             lr: float, momentum: float = 0.0, weight_decay: float = 0.0,
             nesterov: bool = False) -> None:
    """Take a step of gradient descent on `param`, in place, in one launch.

    Parameters
    ----------
    param, grad : array, Variable, or tree of them
        As for `adam_step`.
    velocity : array or tree, optional
        State of the same shape, zeros at first, changed in place; `momentum` needs it.
    lr, momentum, weight_decay : float
        Passed at run time: new values do not recompile.  `weight_decay` times `param`
        is added to the gradient.
    nesterov : bool
        Whether to step along the slope after `momentum` has moved `param`.

    Raises
    ------
    KernelTypeError
        `momentum` or `nesterov` without `velocity`, or something is no array.
    ShapeError
        Shapes differ, or trees do.

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
        if nesterov or momentum:
            raise KernelTypeError(f"sgd_step: '{'nesterov' if nesterov else 'momentum'}"
                                  "' needs 'velocity', zeros in the shape of 'param'; "
                                  "got None")
        p = _plain(param)
        if not _taken(sgd_update, (p,), (p, _plain(grad)), (rate, decay)):
            _step("sgd_step", sgd_update, {"param": param, "grad": grad}, (0,),
                  (rate, decay))
        return
    update = nesterov_update if nesterov else momentum_update
    numbers = (rate, momentum, decay)
    p, v = _plain(param), velocity
    if not _taken(update, (p, v), (p, _plain(grad), v), numbers):
        _step("sgd_step", update, {"param": param, "grad": grad, "velocity": velocity},
              (0, 2), numbers)


def adam_step(param: AnyArray, grad: AnyArray, m: AnyArray, v: AnyArray, *,
              lr: float = 1e-3, beta1: float = 0.9, beta2: float = 0.999,
              eps: float = 1e-8, step: int, weight_decay: float = 0.0,
              decoupled: bool = True) -> None:
    """Take a step of Adam or AdamW, in place, in one launch.

    Parameters
    ----------
    param, grad : array, Variable, or tree of them
        Of one shape; on Variables, and on tensors that require grad, the step is not
        recorded.  Trees (dictionaries, lists, tuples, dataclasses) have one structure,
        and take one step together.  The step is against `grad`: of complex parameters
        pass the conjugate of what `nf.grad` gives.
    m, v : array or tree
        First and second moments, zeros at first, changed in place; second ones of
        complex numbers are those of their sizes, and may be real.
    lr, beta1, beta2, eps, weight_decay : float
        Passed at run time: new values do not recompile.
    step : int
        1 for the first step; corrects the moments' bias.
    decoupled : bool
        Whether `weight_decay` shrinks `param` by itself, as in AdamW; else it is added
        to the gradient, as in PyTorch's ``Adam``.

    Raises
    ------
    RangeError
        `step` is less than 1, a beta is outside [0, 1), or `eps` is negative.
    KernelTypeError
        Something is no array.
    ShapeError
        Shapes differ, or trees do; the message names the leaf: ``grad['w'][0]``.

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
    update = adam_update if decoupled else adam_l2_update
    p = _plain(param)
    if not _taken(update, (p, m, v), (p, _plain(grad), m, v), numbers):
        _step("adam_step", update, {"param": param, "grad": grad, "m": m, "v": v},
              (0, 2, 3), numbers)


def _counted(step: Any) -> int:
    """Check the number of a step."""
    count = whole_number(step, "adam_step", "step")
    if count < 1:
        raise RangeError(f"adam_step: 'step' counts from 1, got {step!r}; pass the "
                         "number of this step")
    return count
