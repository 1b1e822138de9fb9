"""Matrix products with bias, epilogue and permuted store, in one launch each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..arrays.traced import extents
from ..autograd import Variable
from ..errors import KernelTypeError
from ..op import AnyArray, Case, Operand, ScalarFunction, op
from ..op.base import check_array, check_operand, is_number
from ..op.contraction import cached_product, check_subscripts, epilogue_of
from ..op.contraction import contract as run
from ..op.keywords import as_numpy
from ..scalar.ir.build import Builder
from ..scalar.ir.nodes import Function, Value
from ..specs.shapes import check_permutation
from ..specs.vjp.functions import compose

__all__ = ["batched_matmul", "contract", "linear", "matmul", "matmul_add_relu"]


@lru_cache(maxsize=256)
def _biased(epilogue: Function | None) -> Function:
    """``epilogue(acc + bias, *extras)``."""
    if epilogue is None:
        return compose("add_bias", ("acc", "bias"),
                       lambda b: (b.let("add", "acc", "bias"),))
    taken = {"acc", "bias"}
    extras = tuple(p if p not in taken else f"{p}_" for p in epilogue.params[1:])

    def build(b: Builder) -> tuple[Value, ...]:
        return b.call(epilogue, b.let("add", "acc", "bias"), *extras)

    return compose(f"bias_{epilogue.name}", ("acc", "bias", *extras), build)


def _product(what: str, a: AnyArray, b: AnyArray, bias: Operand | None,
             epilogue: ScalarFunction | Function | None, extras: Sequence[Operand],
             out: AnyArray | None = None, permute: Sequence[int] | None = None,
             precision: str | None = None,
             names: tuple[str, ...] = ("a", "b"), label: str = "epilogue",
             numbers: bool = True) -> AnyArray:
    """``epilogue(a @ b + bias, *extras)`` permuted, for operands of any rank.

    `numbers` says whether the bias may be one.
    """
    key = None
    if type(extras) is tuple and not extras and permute is None and precision is None:
        key, known = cached_product(what, a, b, bias, epilogue, out)
        if known is not None:
            return known((a, b) if bias is None else (a, b, bias), out)
    extras = _sequence(extras, what, "extras", "arrays or numbers")
    function = epilogue_of(epilogue, label, takes=1 + len(extras))
    if label == "activation" and function is not None and len(function.params) != 1:
        raise KernelTypeError(
            f"{what}: 'activation' must be a function of one value, got "
            f"{function.name}({', '.join(function.params)}); close over the others, or "
            "call matmul with epilogue= and extras=")
    if bias is not None:
        if not numbers:
            check_array(bias, what, "bias")
        function, extras = _biased(function), (bias, *extras)
        names = (*names, "bias")
    for x, name in zip((a, b), names, strict=False):
        _check_array(x, what, name)
    left, right = len(a.shape), len(b.shape)
    subscripts = (f"{'k' if left == 1 else '...mk'},{'k' if right == 1 else '...kn'}->"
                  f"{'...' if left > 1 or right > 1 else ''}"
                  f"{'m' if left > 1 else ''}{'n' if right > 1 else ''}")
    if (left == 1 and right <= 2) or (right == 1 and left <= 2):
        subscripts = subscripts.replace("...", "")
    if permute is not None:
        ndim = max(left, right) - (left == 1) - (right == 1)
        permute = check_permutation(permute, ndim, "permute")
    return run(subscripts, a, b, extras, epilogue=function, out=out, out_axes=permute,
               precision=precision, names=names, what=what, key=key)


def _sequence(given: Any, what: str, name: str, of: str) -> tuple[Any, ...]:
    if isinstance(given, Iterable) and not isinstance(given, (str, Variable)):
        return tuple(given)
    raise KernelTypeError(f"{what}: '{name}' must be a sequence of {of}, got "
                          f"{given!r}; put it in a tuple")


def _check_array(x: Any, what: str, name: str) -> None:
    check_operand(x, what, name)
    if is_number(x) or not extents(x):
        raise KernelTypeError(f"{what}: '{name}' must be an array of at least one "
                              f"dimension, got {x!r}; use multiply for a number")


def _matmul(a, b, bias=None, epilogue=None, extras=()):
    y = np.matmul(a, b)
    y = y if bias is None else y + bias
    return np.maximum(y, 0) if epilogue == "relu" else y


@op(_matmul, Case(((5, 7), (7, 3)), dtypes="iufc"), Case(((2, 5, 7), (7, 3))),
    Case(((7,), (7, 3))), Case(((5, 7), (7,))), Case(((7,), (7,))),
    Case(((3, 1, 33, 17), (4, 17, 18))), Case(((5, 0), (0, 3))))
def matmul(a: AnyArray, b: AnyArray, *, bias: Operand | None = None,
           epilogue: ScalarFunction | None = None, extras: Sequence[Operand] = (),
           precision: str | None = None, out: AnyArray | None = None,
           **keywords: Any) -> AnyArray:
    """``epilogue(a @ b + bias, *extras)`` with `numpy.matmul`'s broadcasting.

    Parameters
    ----------
    a, b : array
        Of at least one dimension; the axes before the last two are batch axes.
    bias : array or number, optional
        Broadcasts to the product.
    epilogue : scalar function or str, optional
        Applied to each element before it is stored: a function of the product and of
        `extras`, or the name of an op.
    extras : sequence of arrays or numbers
        Further arguments of `epilogue`; arrays broadcast to the product.
    precision : {"tf32"}, optional
        ``"tf32"`` lets a device with tensor cores round float32 `a` and `b` to 11
        significant bits before they are multiplied (relative errors near 5e-4 instead
        of 6e-8); sums stay float32.  Other dtypes and devices ignore it.  Derivatives
        are computed alike.
    out : array, optional
        Where to store.
    **keywords
        `dtype` and `casting`, as in `numpy.matmul`, without an epilogue.

    Returns
    -------
    array
        Of the dtype that NumPy gives ``a @ b``, then the epilogue.

    Raises
    ------
    KernelTypeError
        `a` or `b` is a number, `epilogue` takes another number of arguments, or
        `precision` is something else.
    ShapeError
        Inner extents differ, or something does not broadcast.

    Notes
    -----
    One launch.  Sums are kept in float32 for 16-bit floats, and rounded once, after the
    epilogue.  A product over nothing is 0.  Of bfloat16, processors with instructions
    for its products take numbers below ``2**-126`` for zero, in `a`, `b` and the sums.

    Examples
    --------
    >>> import numpy as np
    >>> matmul(np.eye(2), np.array([[1.0, -1.0], [2.0, 3.0]]), epilogue="relu")
    array([[1., 0.],
           [2., 3.]])
    """
    if keywords:
        if bias is not None or epilogue is not None:
            raise KernelTypeError(f"matmul: {min(keywords)!r} is NumPy's, and is not "
                                  "taken beside 'bias' and 'epilogue'; use astype")
        return as_numpy("matmul", a, b, out=out, **keywords)
    return _product("matmul", a, b, bias, epilogue, extras, out, precision=precision)


@op(lambda lhs, rhs, bias: np.maximum(np.einsum("...mk,...kn->...mn", lhs, rhs) + bias,
                                      0),
    Case(((5, 7), (7, 3), (3,))),
    Case(((1, 32, 32), (32, 32, 32), (32, 32, 32)), smooth=False))
def matmul_add_relu(lhs: AnyArray, rhs: AnyArray, bias: Operand, *,
                    out: AnyArray | None = None) -> AnyArray:
    """``relu(lhs @ rhs + bias)`` in one launch.

    Parameters
    ----------
    lhs, rhs : array
        As `matmul` takes them.
    bias : array or number
        Broadcasts to the product.
    out : array, optional
        Where to store.

    Returns
    -------
    array

    Examples
    --------
    >>> import numpy as np
    >>> matmul_add_relu(np.eye(2), np.array([[1.0, -1.0], [2.0, 3.0]]), -1.0)
    array([[0., 0.],
           [1., 2.]])
    """
    return _product("matmul_add_relu", lhs, rhs, bias, "relu", (), out,
                    names=("lhs", "rhs"))


def _linear(x, weight, bias=None, activation=None):
    y = np.tensordot(x, weight, 1)
    y = y if bias is None else y + bias
    return np.tanh(y) if activation == "tanh" else y


@op(_linear, Case(((5, 7), (7, 3))), Case(((2, 5, 7), (7, 3), (3,))),
    Case(((5, 7), (7, 3), (3,)), {"activation": "tanh"}))
def linear(x: AnyArray, weight: AnyArray, bias: AnyArray | None = None,
           activation: ScalarFunction | None = None, *, precision: str | None = None,
           out: AnyArray | None = None) -> AnyArray:
    """A linear layer, ``activation(x @ weight + bias)``, in one launch.

    Parameters
    ----------
    x : array
        Shape ``(..., n_in)``.
    weight : array
        Shape ``(n_in, n_out)``.
    bias : array, optional
        Shape ``(n_out,)``.
    activation : scalar function or str, optional
        ``"relu"``, ``"gelu"``, ``"swish"``, … or a function of one scalar.
    precision : {"tf32"}, optional
        As in `matmul`.
    out : array, optional
        Where to store.

    Returns
    -------
    array
        Shape ``(..., n_out)``.

    Examples
    --------
    >>> import numpy as np
    >>> linear(np.ones((1, 2)), np.eye(2), np.array([1.0, -3.0]), activation="relu")
    array([[2., 0.]])
    """
    return _product("linear", x, weight, bias, activation, (), out,
                    precision=precision, names=("x", "weight"), label="activation",
                    numbers=False)


def _batched(a, b, bias=None, epilogue=None, extras=(), permute=None):
    y = np.einsum("...mk,...kn->...mn", a, b)
    y = y if bias is None else y + bias
    return y if permute is None else np.transpose(y, permute)


@op(_batched, Case(((3, 5, 7), (3, 7, 4))),
    Case(((3, 5, 7), (3, 7, 4), (4,)), {"permute": (1, 0, 2)}))
def batched_matmul(a: AnyArray, b: AnyArray, bias: Operand | None = None, *,
                   epilogue: ScalarFunction | None = None,
                   extras: Sequence[Operand] = (),
                   permute: Sequence[int] | None = None, precision: str | None = None,
                   out: AnyArray | None = None) -> AnyArray:
    """``transpose(epilogue(a @ b + bias, *extras), permute)`` in one launch.

    Parameters
    ----------
    a, b : array
        Shapes ``(..., m, k)`` and ``(..., k, n)``; batch axes broadcast.
    bias, extras, epilogue, precision, out
        As in `matmul`; `bias` and `extras` meet the product before it is permuted.
    permute : sequence of int, optional
        The order of the product's axes in the result, as in `numpy.transpose`.

    Returns
    -------
    array
        C-contiguous in the permuted order.

    Examples
    --------
    >>> import numpy as np
    >>> a, b = np.ones((4, 2, 3)), np.ones((4, 3, 5))
    >>> batched_matmul(a, b, permute=(1, 0, 2)).shape
    (2, 4, 5)
    """
    return _product("batched_matmul", a, b, bias, epilogue, extras, out, permute,
                    precision)


@op(lambda subscripts, a, b: np.einsum(subscripts, a, b))
def contract(subscripts: str, a: AnyArray, b: AnyArray, *, bias: Operand | None = None,
             epilogue: ScalarFunction | None = None, extras: Sequence[Operand] = (),
             prologue_a: ScalarFunction | None = None,
             prologue_b: ScalarFunction | None = None,
             out_axes: Sequence[int] | None = None, precision: str | None = None,
             out: AnyArray | None = None) -> AnyArray:
    """``epilogue(einsum(subscripts, a, b) + bias, *extras)`` in one launch.

    Parameters
    ----------
    subscripts : str
        As in `numpy.einsum`: two operands, ``->``, the result; each label of an
        operand is in the other one or in the result.
    a, b : array
        The operands; ``...`` in `subscripts` stands for batch axes, which broadcast.
    bias, epilogue, extras, precision, out
        As in `matmul`.
    prologue_a, prologue_b : scalar function or str, optional
        Applied to each element of an operand as it is read.
    out_axes : sequence of int, optional
        The order in which the result's axes are stored, as in `numpy.transpose`.

    Returns
    -------
    array

    Raises
    ------
    KernelTypeError
        A prologue or `epilogue` takes another number of arguments.
    ShapeError
        Shapes do not fit the subscripts, or something does not broadcast.

    Examples
    --------
    >>> import numpy as np
    >>> a, b = np.ones((2, 3, 4)), np.ones((2, 5, 4))
    >>> contract("gmk,gnk->gmn", a, b).shape
    (2, 3, 5)
    """
    check_subscripts(subscripts, "contract")
    extras = _sequence(extras, "contract", "extras", "arrays or numbers")
    function = epilogue_of(epilogue, takes=1 + len(extras))
    names: tuple[str, ...] = ("a", "b")
    if bias is not None:
        function, extras = _biased(function), (bias, *extras)
        names = (*names, "bias")
    prologues = (epilogue_of(prologue_a, "prologue_a"),
                 epilogue_of(prologue_b, "prologue_b"))
    order = None if out_axes is None else _sequence(
        out_axes, "contract", "out_axes", "integers")
    return run(subscripts, a, b, extras, epilogue=function, prologues=prologues,
               out_axes=order, precision=precision, out=out, names=names,
               what="contract")


@op(lambda a, b: np.einsum("GHmik,GHnjk->GHmnij", a, b),
    Case(((1, 2, 3, 4, 6), (1, 2, 2, 5, 6))))
def _contract_multi(a, b):
    return contract("GHmik,GHnjk->GHmnij", a, b)
