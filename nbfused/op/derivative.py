"""`derivative` and `tangent`: derivatives of scalar functions, as functions."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

import numpy as np

from ..autograd.gradcheck import gradcheck
from ..errors import KernelTypeError
from ..scalar.autodiff.custom import Rules
from ..scalar.autodiff.differentiate import jvp, vjp
from ..scalar.ir.nodes import Block, Custom, Function, raw_params
from ..specs.vjp.functions import pick
from .base import Parameters
from .elementwise import Elementwise
from .scalar import ScalarFunction, scalar_function

__all__ = ["check_rules", "derivative", "tangent"]

#: Where `check_rules` compares.
_POINTS = 5


class _Derived(Elementwise):
    """A function derived from another scalar function."""

    def __init__(self, function: Function, doc: str, derived_from: Any = None) -> None:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        self.pyfunc: Any = None
        self.derived_from = derived_from
        self.__dict__["function"] = function
        self.__name__, self.__doc__ = function.name, doc
        self.__qualname__ = f"{type(self).__name__}.<locals>.{function.name}"
        self.signature = inspect.Signature(
            [inspect.Parameter(p, kind) for p in function.params])
        self.__signature__ = self.signature
        self.parameters = Parameters(function.name, self.signature)
        self.literals, self.rules, self.nondiff = (), Rules(), ()
        self.gradcheck, self.prefer = False, ""
        self._specs, self._variants = {}, {}
        self._known, self._stored = {}, {}

    def made_of(self) -> tuple[Any, ...]:
        """The original function, from which a copy can be made."""
        return self.function, self.__doc__, self.derived_from

    def extras(self) -> dict[str, Any]:
        """No attributes: rules belong to the original function."""
        return {}


def derivative(function: ScalarFunction) -> Elementwise:
    """Differentiate a scalar function in reverse mode.

    Parameters
    ----------
    function
        Made by ``@nf.func`` or ``@nf.elementwise``, a Python function in the scalar
        language, or the name of an op.

    Returns
    -------
    Elementwise
        Takes the arguments of `function`, then a cotangent for each result; gives a
        cotangent for each argument that is no array, as a tuple if there are several.
        It is called on numbers and arrays, in other scalar functions and in kernels.

    Examples
    --------
    >>> import nbfused as nf
    >>> @nf.func
    ... def square(x):
    ...     return x * x
    >>> float(nf.derivative(square)(3.0, 1.0))
    6.0
    """
    primal = scalar_function(function)
    arrays = raw_params(primal)
    wrt = tuple(p not in arrays for p in primal.params)
    return _Derived(vjp(primal, wrt, (True,) * len(primal.results)),
                    f"The derivative of {primal.name}: arguments, then cotangents.",
                    function)


def tangent(function: ScalarFunction) -> Elementwise:
    """Differentiate a scalar function in forward mode.

    Parameters
    ----------
    function
        As of `derivative`.

    Returns
    -------
    Elementwise
        Takes the arguments of `function`, then a tangent for each that is no array;
        gives the tangents of the results.

    Examples
    --------
    >>> import nbfused as nf
    >>> @nf.func
    ... def product(x, y):
    ...     return x * y
    >>> float(nf.tangent(product)(3.0, 5.0, 1.0, 0.0))
    5.0
    """
    primal = scalar_function(function)
    arrays = raw_params(primal)
    both = jvp(primal, tuple(p not in arrays for p in primal.params))
    count = len(primal.results)
    return _Derived(pick(both, range(count, 2 * count)),
                    f"The tangents of {primal.name}: arguments, then tangents.",
                    function)


def check_rules(function: Function) -> None:
    """Compare the derivative of `function` with differences at random points.

    Raises
    ------
    GradcheckError
        Names the argument, the point and both values.
    KernelTypeError
        It takes integers, which no random point is.
    """
    points = np.random.default_rng(0).uniform(-2, 2, (len(function.params), _POINTS))
    try:
        for given in dict.fromkeys((function, _by_tangents(function))):
            gradcheck(_Derived(given, ""), list(points))
    except KernelTypeError as error:
        raise KernelTypeError(
            f"gradcheck=True: {function.name} cannot be checked at random numbers: "
            f"{error}; leave it out and call nf.testing.gradcheck on an elementwise "
            "function of it") from error


def _by_tangents(function: Function) -> Function:
    """A copy whose cotangents follow from the forward rules where there are any."""
    body = Block(tuple(replace(s, vjp=None) if isinstance(s, Custom) and s.jvp else s
                       for s in function.body.statements), function.body.yields)
    return replace(function, body=body)


#: Inside a scalar function a call of these is made when that is parsed.
for _made in (derivative, tangent):
    _made.__nbfused_higher__ = True  # type: ignore[attr-defined]
