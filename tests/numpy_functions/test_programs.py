"""Ordinary programs of NumPy, differentiated twice, eagerly and in `nf.fuse`.

The oracle is the program itself, run by NumPy: differences of its results.
"""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import ShapeError
from tests.numpy_functions.agreement import check
from tests.numpy_functions.programs.learning import LEARNING
from tests.numpy_functions.programs.simulations import SIMULATIONS
from tests.numpy_functions.programs.statistics import STATISTICS
from tests.refusal import refused
from tests.variants import sampled

#: Each test fuses a function of its own.
pytestmark = [pytest.mark.interpreted, pytest.mark.filterwarnings(
    "ignore::nbfused.errors.NbFusedPerformanceWarning")]

PROGRAMS = {p.__name__: p for p in (*SIMULATIONS, *LEARNING, *STATISTICS)}
#: Those that are fused at once.
FUSED = ("wing", "heat", "quantum")
#: Of which each gradient takes long, of functions that others take as well.
LONG = ("fluid", "sequence_labels")


def directions(arguments):
    rng = np.random.default_rng(9)
    return [rng.normal(size=np.shape(x)) for x in arguments]


def derivatives(loss, arguments, module=nf, array=np):
    """The gradients, and their derivatives along a direction."""
    which, along = tuple(range(len(arguments))), directions(arguments)

    def gradients(*given):
        return module.grad(loss, argnums=which)(*given)

    def slope(*given):
        return sum(array.sum(g * d) for g, d in zip(
            gradients(*given), along, strict=True))

    return gradients, module.grad(slope, argnums=which)


def moved(arguments, step):
    return [x + step * d for x, d in zip(arguments, directions(arguments),
                                         strict=True)]


@pytest.mark.parametrize("name", sampled(PROGRAMS, *(PROGRAMS.keys() - LONG)))
def test_derivatives(name):
    loss, arguments = PROGRAMS[name](np)
    gradients, second = derivatives(loss, arguments)
    step, along = 1e-6, directions(arguments)
    found = gradients(*arguments)
    slope = sum(np.sum(g * d) for g, d in zip(found, along, strict=True))
    ahead, behind = (float(loss(*moved(arguments, s))) for s in (step, -step))
    np.testing.assert_allclose(slope, (ahead - behind) / (2 * step), 2e-6, 1e-7)
    pairs = zip(*(gradients(*moved(arguments, s)) for s in (step, -step)), strict=True)
    for exact, (more, less) in zip(second(*arguments), pairs, strict=True):
        scale = np.max(np.abs(exact)) + 1
        np.testing.assert_allclose(exact / scale, (more - less) / (2 * step) / scale,
                                   0, 5e-6)


@pytest.mark.parametrize("name", sampled(PROGRAMS, *FUSED))
def test_in_fuse(name):
    loss, arguments = PROGRAMS[name](np)
    gradients, second = derivatives(loss, arguments)
    found = nf.fuse(lambda *given: (gradients(*given), second(*given)))(*arguments)
    for ours, theirs in zip(found, (gradients(*arguments), second(*arguments)),
                            strict=True):
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(one, other, 1e-8, 1e-9 * np.max(np.abs(other)))


ARRAYS = {
    "asarray": lambda x: np.asarray(x) * 2, "array": lambda x: np.array(x) * 2,
    "dtype": lambda x: np.asarray(x, np.float32) * 2,
    "number": lambda x: np.asarray(x.sum()) * x,
    "list": lambda x: np.array([x[0], 2.0 * x[1]]),
    "read from outside": lambda x: np.asarray(TABLE)[np.floor(x).astype(int)],
}
TABLE = np.arange(12.0).reshape(3, 4)


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_of_what_is_traced(name):
    """They are what is traced itself, or a copy that can be changed."""
    x, function = np.array([0.5, 1.25]), ARRAYS[name]
    found, wanted = nf.fuse(function)(x), function(x)
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, 1e-6)

    def changed(x):
        y = np.array(x)
        y[0] = 7.0
        return x * y

    np.testing.assert_array_equal(nf.fuse(changed)(x), changed(x))


def test_stores_that_would_lose_a_gradient():
    """NumPy asks a Variable for its number, which has no gradient any more."""
    def stored(x):
        made = np.zeros(2)
        made[0] = x[0] ** 2
        return made.sum() + x.sum()

    x = np.array([2.0, 3.0])
    with pytest.raises((TypeError, ValueError)):
        nf.grad(stored)(x)
    np.testing.assert_array_equal(nf.fuse(nf.grad(stored))(x), [5.0, 1.0])
    made = np.zeros(2)
    made[0] = nf.Variable(x)[1]  # there is none to lose
    with nf.no_grad():
        made[1] = nf.Variable(x, requires_grad=True)[0]
    assert made.tolist() == [3.0, 2.0]
    assert float(nf.Variable(x, requires_grad=True)[0]) == 2.0


def test_windows():
    view, x = np.lib.stride_tricks.sliding_window_view, np.arange(30.0).reshape(5, 6)
    for arguments in (((2, 3),), (2, 0), ((2, 2), (1, 1)), ((3,), (-1,))):
        check(lambda x, a=arguments: view(x, *a) ** 2, x)
    with refused(ShapeError, "window of 9 along axis 0", "expected one within"):
        view(nf.Variable(x), (9, 9))


@pytest.mark.variants
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_jax(name):
    jax = pytest.importorskip("jax")
    loss, arguments = PROGRAMS[name](np)
    ours = derivatives(loss, arguments)
    with jax.enable_x64(True):
        theirs = derivatives(PROGRAMS[name](jax.numpy)[0], arguments, jax, jax.numpy)
        given = [jax.numpy.asarray(x) for x in arguments]
        wanted = [[np.asarray(x) for x in f(*given)] for f in theirs]
    for f, expected in zip(ours, wanted, strict=True):
        for one, other in zip(f(*arguments), expected, strict=True):
            np.testing.assert_allclose(one, other, 1e-8, 1e-9 * np.max(np.abs(other)))
