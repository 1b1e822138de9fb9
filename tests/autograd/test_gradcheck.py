"""The checker of gradients sees wrong ones, of the first and of the second order."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import DefinitionError, KernelTypeError
from nbfused.testing import GradcheckError, gradcheck, gradients

pytestmark = pytest.mark.interpreted

A = np.random.default_rng(0).uniform(0.5, 2.0, (2, 3))


@nf.elementwise
def square(x):
    return x * x


@nf.elementwise
def half_square(x):
    """The value of a square, half its derivative."""
    return x * nf.detach(x)


def with_rule(backward):
    """The square with a rule of its own."""
    rule = nf.custom_vjp(square)
    rule.defvjp(lambda x: (square(x), x), lambda x, g: (backward(x) * g,))
    return rule


def test_right_ones_pass():
    gradcheck(square, [A], order=2)
    gradcheck(with_rule(lambda x: 2.0 * x), [A], order=2)
    gradcheck(square, [A], reference=np.square)
    gradcheck(nf.ops.sum, [A], order=2)  # of order 2: zero


def test_a_wrong_one_is_named():
    with pytest.raises(GradcheckError, match=r"argument 0 at \(0, 0\).*differences"):
        gradcheck(half_square, [A])
    with pytest.raises(GradcheckError, match="argument 1"):
        gradcheck(lambda x, y: square(x) + half_square(y), [A, A])


def test_one_wrong_element_is_enough():
    wrong = np.ones((2, 3))
    wrong[1, 2] = 1.001
    with pytest.raises(GradcheckError, match=r"\(1, 2\)"):
        gradcheck(with_rule(lambda x: 2.0 * x * wrong), [A])


def test_nan_is_wrong():
    with pytest.raises(GradcheckError, match="nan"):
        gradcheck(with_rule(lambda x: x * np.nan), [A])


def test_a_wrong_second_order_is_seen():
    rule = with_rule(lambda x: 2.0 * x.detach())
    gradcheck(rule, [A])
    with pytest.raises(GradcheckError):
        gradcheck(rule, [A], order=2)


def test_a_reference_that_differs_is_seen():
    with pytest.raises(GradcheckError):
        gradcheck(square, [A], reference=lambda x: x * x + 0.01 * x)


def test_only_floats_are_differentiated_by(device):
    labels = np.array([0, 2])
    gradcheck(nf.ops.cross_entropy, [A, labels],
              place=lambda x: nf.array(x, device=device))
    found = gradients(nf.ops.cross_entropy, [A, labels],
                      place=lambda x: nf.array(x, device=device))
    assert found[1] is None
    assert isinstance(found[0], np.ndarray)


def test_gradients_of_narrow_dtypes_keep_them():
    for dtype in ("float16", "float32"):
        (found,) = gradients(square, [A.astype(dtype)])
        assert found is not None
        assert found.dtype == dtype
        np.testing.assert_allclose(found, 2 * A, rtol=2e-3)


@nf.elementwise
def both(x, y):
    return x * y, x / y


def test_every_output_is_checked_in_both_modes_and_orders():
    gradcheck(both, [A, A + 1], order=2, modes=("reverse", "forward"))
    gradcheck(lambda x: (x * x, nf.ops.argmax(x), x * 2.0), [A], modes=("forward",))
    for modes in (("reverse",), ("forward",)):
        with pytest.raises(GradcheckError):
            gradcheck(lambda x: (square(x), half_square(x)), [A], modes=modes)


def test_forward_mode_names_the_direction_and_the_element():
    with pytest.raises(GradcheckError, match=r"argument 1 at \(0, 0\).*'y'.*forward") \
            as found:
        gradcheck(lambda x, y: square(x) + half_square(y), [A, A], modes=("forward",))
    error = found.value
    assert (error.argument, error.mode) == (1, "forward")
    assert error.numeric == pytest.approx(2 * error.analytic)


def test_a_planted_wrong_rule_is_reported_with_both_values():
    @nf.custom_vjp
    def scaled(x, weight):
        return x * weight

    scaled.defvjp(lambda x, weight: (x * weight, (x, weight)),
                  lambda saved, g: (g * saved[1], g * saved[0] * -1.0))
    with pytest.raises(GradcheckError, match=r"scaled.*argument 1 at .*'weight'") \
            as found:
        gradcheck(scaled, [A, A + 1])
    error = found.value
    assert error.argument == 1
    assert error.analytic == pytest.approx(-error.numeric)
    assert repr(error.analytic) in str(error)
    assert repr(error.numeric) in str(error)


def test_a_wrong_second_order_is_seen_in_forward_mode():
    rule = with_rule(lambda x: 2.0 * x.detach())
    gradcheck(rule, [A])
    with pytest.raises(GradcheckError, match="the gradient of"):
        gradcheck(rule, [A], order=2, modes=("forward",))


def test_samples_bound_the_work():
    calls = []

    def counted(x):
        calls.append(x)
        return square(x)

    gradcheck(counted, [np.ones(1000)], samples=3)
    assert len(calls) == 2 + 2*3


@pytest.mark.parametrize(("options", "error", "message"), [
    ({"order": 0}, ValueError, "'order'"),
    ({"modes": ()}, ValueError, "'modes'"),
    ({"modes": ("backward",)}, ValueError, "'modes'"),
])
def test_wrong_options(options, error, message):
    with pytest.raises(error, match=message):
        gradcheck(square, [A], **options)


def test_narrow_floats_are_too_coarse():
    with pytest.raises(KernelTypeError, match="argument 1 has dtype float32"):
        gradcheck(both, [A, A.astype("f4")])


def test_only_the_chosen_arguments_are_differentiated_by():
    gradcheck(lambda x, y: square(x) + half_square(y), [A, A], argnums=[0], order=2,
              modes=("reverse", "forward"))


def test_a_function_with_a_wrong_backward_is_named():
    class Cube(nf.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2.0 * x * x * g

    with pytest.raises(GradcheckError, match=r"Cube\.apply: .*argument 0 at \(0, 0\)"):
        gradcheck(Cube.apply, [A])


@pytest.mark.parametrize("options", [
    {"order": 0}, {"modes": ()}, {"modes": "reverse"}, {"modes": ("backward",)},
    {"eps": 0}, {"eps": -1e-6}, {"eps": np.nan}, {"eps": "a"}, {"tolerance": np.nan},
    {"tolerance": -1.0}, {"samples": 0}, {"samples": 1.5}, {"argnums": [1]},
    {"argnums": [-1]}, {"argnums": 0}, {"argnums": "0"}, {"seed": -1}, {"seed": "a"},
    {"seed": 1.5}, {"modes": [["reverse"]]}, {"order": np.array([1, 2])},
])
def test_options_are_checked(options):
    (name,) = options
    with pytest.raises(DefinitionError, match=f"gradcheck: '{name}' must be"):
        gradcheck(square, [A], **options)


def test_nothing_is_not_checked():
    for args, options in (([np.arange(3)], {}), ([], {}), ([A], {"argnums": ()}),
                          ([A, np.arange(3)], {"argnums": [1]})):
        with pytest.raises(KernelTypeError, match="nothing to differentiate by"):
            gradcheck(square, args, **options)
    with pytest.raises(KernelTypeError, match="'args' must be a list"):
        gradcheck(square, A)
    for name in ("place", "reference"):
        with pytest.raises(KernelTypeError, match=f"'{name}' must be callable, got 3"):
            gradcheck(square, [A], **{name: 3})
    with pytest.raises(KernelTypeError, match="'function' must be callable"):
        gradcheck(3, [A])
