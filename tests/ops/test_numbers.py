"""Options that are numbers: of another type, NaN, outside their range."""

import numpy as np
import pytest

from nbfused import ops
from nbfused.errors import KernelTypeError, RangeError, ShapeError
from tests.refusal import refused

pytestmark = pytest.mark.interpreted

LABELS = np.array([0, 1])
NAN = float("nan")


def x():
    return np.array([[1.0, 2.0, 4.0], [3.0, 1.0, 0.0]])


def adam(**options):
    ops.adam_step(x(), x(), x(), x(), **{"step": 1, **options})


def sgd(**options):
    ops.sgd_step(x(), x(), x(), **{"lr": 0.1, **options})


NUMBERS = {
    **{f"adam_step: '{n}'": lambda v, n=n: adam(**{n: v})
       for n in ("lr", "beta1", "beta2", "eps", "weight_decay")},
    **{f"sgd_step: '{n}'": lambda v, n=n: sgd(**{n: v})
       for n in ("lr", "momentum", "weight_decay")},
    "layer_norm: 'eps'": lambda v: ops.layer_norm(x(), eps=v),
    "rms_norm: 'eps'": lambda v: ops.rms_norm(x(), eps=v),
    "add_rms_norm: 'eps'": lambda v: ops.add_rms_norm(x(), x(), eps=v),
    "dropout: 'p'": lambda v: ops.dropout(x(), v, 0),
    "cross_entropy: 'label_smoothing'":
        lambda v: ops.cross_entropy(x(), LABELS, label_smoothing=v),
    "var: 'ddof'": lambda v: ops.var(x(), ddof=v),
    "std: 'ddof'": lambda v: ops.std(x(), ddof=v),
}


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", ["a", None, 1j, [0.1], np.ones(3)], ids=str)
def test_what_is_no_number(name, value):
    with refused(KernelTypeError, f"{name} must be a number", "pass a float"):
        NUMBERS[name](value)


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [NAN, 10**400], ids=["nan", "huge"])
def test_numbers_that_none_is(name, value):
    with refused(RangeError, name):
        NUMBERS[name](value)


@pytest.mark.parametrize("name", [n for n in NUMBERS if "eps" in n])
def test_a_negative_eps(name):
    with refused(RangeError, f"{name} must be at least 0, got -1", "small positive"):
        NUMBERS[name](-1)


@pytest.mark.parametrize("name", [n for n in NUMBERS if "beta" in n])
@pytest.mark.parametrize("value", [1.0, -0.1, 1.5])
def test_betas_outside_their_range(name, value):
    with refused(RangeError, f"{name} must be in [0, 1)", repr(value)):
        NUMBERS[name](value)


def test_integers_beyond_64_bits():
    for call, name in ((lambda: ops.dropout(x(), 0.5, 2**70), "dropout: 'seed'"),
                       (lambda: adam(step=10**400), "adam_step: 'step'"),
                       (lambda: ops.cross_entropy(x(), LABELS, ignore_index=2**70),
                        "cross_entropy: 'ignore_index'")):
        with refused(RangeError, name, "does not fit 64 bits"):
            call()


def test_a_refused_step_changes_nothing():
    p, m, v = x(), x(), x()
    with refused(RangeError, "'beta2'"):
        ops.adam_step(p, x(), m, v, beta2=1.0, step=1)
    for array in (p, m, v):
        np.testing.assert_array_equal(array, x())


def test_integer_parameters_and_states():
    whole = np.ones((2, 3), int)
    for call, name in ((lambda: ops.sgd_step(whole, x(), lr=1.0), "sgd_step: 'param'"),
                       (lambda: ops.adam_step(x(), x(), whole, x(), step=1),
                        "adam_step: 'm'"),
                       (lambda: ops.sgd_step(x(), x(), whole, lr=1.0),
                        "sgd_step: 'velocity'")):
        with refused(KernelTypeError, name, "int64", "floating", "astype"):
            call()


@pytest.mark.parametrize("op", [ops.softmax, ops.log_softmax, ops.layer_norm,
                                ops.rms_norm], ids=lambda op: op.__name__)
@pytest.mark.parametrize("given", [1.0, np.array(1.0)], ids=["number", "0-d"])
def test_rows_of_nothing_name_the_op(op, given):
    with pytest.raises(KernelTypeError, match=rf"^{op.__name__}: 'x' must be an array "
                       "of at least one dimension"):
        op(given)


def test_inner_names_stay_inside():
    with pytest.raises(KernelTypeError, match=r"^add_rms_norm: 'x' must be an array"):
        ops.add_rms_norm(1.0, 1.0)
    for op in (ops.var, ops.std, ops.norm, ops.gelu):
        with pytest.raises(KernelTypeError, match=rf"^{op.__name__}: 'x' must be an"):
            op(None)
        with pytest.raises(KernelTypeError, match=rf"^({op.__name__}|out)"):
            op(x(), out=())
    with refused(ShapeError, "norm: nothing to reduce"):
        ops.norm(np.ones((0,)), float("inf"))


def test_moduli_of_complex_numbers_are_squared():
    for op, reference in ((ops.var, np.var), (ops.std, np.std),
                          (ops.norm, np.linalg.norm)):
        for given in (x() * np.exp(1j * x()), x() + 1j, np.zeros(3, complex)):
            found = op(given)
            assert found.dtype == np.float64
            np.testing.assert_allclose(found, reference(given), rtol=1e-12)


@pytest.mark.parametrize("ignored", [-100, 256, 2**40])
def test_an_ignored_label_that_the_labels_cannot_hold(ignored):
    labels = np.array([0, 2], "uint8")
    logits = np.array([[0.5, 1.0, -2.0], [0.0, 3.0, 1.0]])
    np.testing.assert_array_equal(
        ops.cross_entropy(logits, labels, ignore_index=ignored),
        ops.cross_entropy(logits, labels))
