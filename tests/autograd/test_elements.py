"""Elements of NumPy's arrays are numbers, which later changes do not reach."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError, TapeError

pytestmark = [pytest.mark.interpreted, pytest.mark.filterwarnings(
    "ignore:fuse.*decorated again")]


def whole_changes(x):
    x = x * 1.0
    first, last = x[0], np.unstack(x)[2]
    x *= 2.0
    return (first * x + last).sum()


def by_its_own_element(x):
    x = x + 0.0
    x -= x[1]
    return (x * x[0]).sum()


def element_changes(x):
    x = x + 0.0
    y = x[::-1]
    last = y[0]
    y += last
    last -= x[0]
    return (last * x * y).sum()


def element_of_an_argument_changes(x):
    one = x[1]
    one *= 2.0
    return (one * x).sum()


def loop_over_elements(x):
    total, x = 0.0, x * 1.0
    for one in x:
        total = total + one * x[1]
        x *= one
    return total


def unpacked(x):
    x = x + 0.0
    x[0] += 2.0
    x[1] *= x[0]
    a, b, c = x
    x[...] = a
    return (x * b + c).sum()


def view_without_dimensions(x):
    x = x + 0.0
    first = x[0, ...]
    first += 3.0
    return (first * x).sum()


FUNCTIONS = [whole_changes, by_its_own_element, element_changes,
             element_of_an_argument_changes, loop_over_elements, unpacked,
             view_without_dimensions]
WAYS = {
    "Variable": lambda f: lambda x: f(nf.Variable(x)).to_numpy(),
    "recorded": lambda f: lambda x: nf.value_and_grad(f)(x)[0],
    "jvp": lambda f: lambda x: nf.jvp(f, (x,), (x,))[0],
    "vmap": lambda f: lambda x: nf.vmap(f)(x[None])[0],
    "fuse": nf.fuse,
    "fuse of Variables": lambda f: lambda x: nf.fuse(f)(nf.Variable(x)).to_numpy(),
    "fuse of a gradient": lambda f: nf.fuse(lambda x: nf.value_and_grad(f)(x)[0]),
    "fuse of vmap": lambda f: nf.fuse(lambda x: nf.vmap(f)(x[None])[0]),
}


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_as_the_function_is_of_arrays(function):
    x = np.array([2.0, 3.0, 5.0])
    expected = function(x.copy())
    found = {name: float(way(function)(x.copy())) for name, way in WAYS.items()}
    assert found == dict.fromkeys(WAYS, pytest.approx(expected))


def two_names(x):
    first = x[0]
    other = first
    first += 3.0
    return first * other


@pytest.mark.parametrize("way", WAYS)
def test_another_name_of_an_element_keeps_it(way):
    run = WAYS[way](two_names)
    if way in ("fuse", "fuse of Variables", "fuse of a gradient"):
        with pytest.raises(KernelTypeError, match="write x = x \\+ y"):
            run(np.array([2.0, 3.0]))
    else:
        assert float(run(np.array([2.0, 3.0]))) == 10.0


def test_elements_of_tensors_are_views():
    torch = pytest.importorskip("torch")
    x = nf.Variable(torch.tensor([2.0, 3.0]))
    first, last = x[0], np.unstack(x)[1]
    x *= 2.0
    last += 1.0
    assert (first.item(), x[1].item()) == (4.0, 7.0)


def test_elements_of_unstack_are_views_where_the_library_has_them_so(device):
    """NumPy's are scalars, and so are ours; CuPy's are views, as PyTorch's."""
    x = nf.array(np.array([1.0, 2.0]), device=device)
    views = not isinstance(x, (np.ndarray, nf.arrays.DeviceArray))
    x = nf.Variable(x)
    first, _ = np.unstack(x)
    x[:] = 5.0
    assert float(first) == (5.0 if views else 1.0)


def test_views_of_a_constant_that_are_gone_take_no_memory():
    x = nf.Variable(np.ones(3))
    for _ in range(300):
        x[:2]
    assert len(x._seen_by) < 100


PARTS = {"real": lambda x: x.real, "imaginary": lambda x: np.imag(x[::-1]),
         "windows": lambda x: np.lib.stride_tricks.sliding_window_view(x, 2)}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("way", ["Variable", "vmap", "fuse"])
def test_parts_that_numpy_shows_are_not_changed_in_silence(part, way):
    """Copies here; a change through NumPy's would be one of the array."""
    def changed(x):
        x = x * 1.0
        PARTS[part](x)[...] = 0.0
        return x

    with pytest.raises((TapeError, KernelTypeError), match=r"x\.copy|make a new"):
        WAYS[way](changed)(np.array([1.0 + 2.0j, 3.0]))


@pytest.mark.parametrize("part", PARTS)
def test_a_fused_function_refuses_parts_of_what_has_changed(part):
    def before(x, own):
        x = x * 1.0
        taken = PARTS[part](x)
        if own:
            taken = taken.copy()
        x *= 2.0
        return taken + 1.0

    x = np.array([1.0 + 2.0j, 3.0])
    np.testing.assert_allclose(nf.fuse(before)(x, True), before(x, True))
    with pytest.raises(KernelTypeError, match="a part of, which NumPy shows"):
        nf.fuse(before)(x, False)
