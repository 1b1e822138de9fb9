"""Optimiser steps: in place, each one launch."""

from __future__ import annotations

import numpy as np

from ..autograd import Variable, no_grad
from ..op import elementwise

__all__ = ["adam_step", "sgd_step"]


@elementwise
def sgd_update(p, g, lr, weight_decay):
    """One step down the gradient."""
    return p - lr * (g + weight_decay * p)


@elementwise
def momentum_update(p, g, v, lr, momentum, weight_decay):
    """One step with a velocity: the new parameter and velocity."""
    velocity = momentum * v + (g + weight_decay * p)
    return p - lr * velocity, velocity


@elementwise
def adam_update(p, g, m, v, lr, beta1, beta2, eps, decay, scale1, scale2):
    """The new parameter and moments; `scale1` and `scale2` correct the bias."""
    first = beta1 * m + (1 - beta1) * g
    second = beta2 * v + (1 - beta2) * (g * g)
    step = first * scale1 / (np.sqrt(second * scale2) + eps)
    return p - lr * (step + decay * p), first, second


def _data(x):
    return x.data if isinstance(x, Variable) else x


def sgd_step(param, grad, velocity=None, *, lr, momentum=0.0, weight_decay=0.0):
    """Move `param` against its gradient, in place.

    Parameters
    ----------
    param, grad : array or Variable
        Of one shape; on Variables the step is not recorded.
    velocity : array, optional
        State of the same shape, changed in place; needed for `momentum`.
    lr, momentum, weight_decay : float
        Passed at run time: new values do not recompile.

    Raises
    ------
    ValueError
        `momentum` without `velocity`.
    """
    p, g = _data(param), _data(grad)
    with no_grad():
        if velocity is None:
            if momentum:
                raise ValueError("sgd_step: 'momentum' needs 'velocity', an array of "
                                 "zeros of the shape of 'param'; got None")
            sgd_update(p, g, float(lr), float(weight_decay), out=p)
            return
        v = _data(velocity)
        momentum_update(p, g, v, float(lr), float(momentum), float(weight_decay),
                        out=(p, v))


def adam_step(param, grad, m, v, *, lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, step,
              weight_decay=0.0):
    """One step of Adam, in place and in one launch.

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
    if step < 1:
        raise ValueError(f"adam_step: 'step' counts from 1, got {step!r}")
    p, g, m, v = map(_data, (param, grad, m, v))
    with no_grad():
        adam_update(p, g, m, v, float(lr), float(beta1), float(beta2), float(eps),
                    float(weight_decay), 1.0 / (1.0 - beta1 ** step),
                    1.0 / (1.0 - beta2 ** step), out=(p, m, v))
