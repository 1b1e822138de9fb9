"""``x += y`` and ``x[index] = y`` inside of `vmap`, beside NumPy sample by sample."""

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError, ShapeError, TapeError

pytestmark = pytest.mark.interpreted

N = 5


def samples(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=(N, *shape))


def views(x):
    y = x * 1
    part, turned = y[1:3], y[::-1]
    part *= 10
    turned[0] = 3.0
    y -= 1
    return y + part[0] + turned


def reshaped(x):
    y = x * 1
    square = y.reshape(2, 2).T
    square[0] += 1
    y[3] = 9.0
    return square * y[0]


def copied_by_reshape(x):
    y = x.reshape(2, 2) * 1
    flat = y.T.reshape(4)
    flat += 1
    return flat + y[0, 0]


def masked(x):
    y = x * 1
    y[y > 0] = 0.0
    y[[0, 2]] += x[[1, 3]]
    return y


def chosen(x):
    y = x * 1
    y[x.argmax()] = 100.0
    y[0], y[1] = y[1] * 1, y[0] * 1
    return y


def running(x):
    y = np.zeros_like(x)
    for k in range(1, 4):
        y[k] += y[k - 1] + x[k]
    return y


def integers(x):
    y = (x * 4).astype(np.int64)
    y //= 2
    y %= 3
    y |= 1
    y <<= 1
    return y


def argument(x):
    x += 1
    x[0] = 5.0
    return x * 2


FUNCTIONS = [views, reshaped, copied_by_reshape, masked, chosen, running, integers,
             argument]


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_values_are_those_of_each_sample(f):
    x, y = samples(4), samples(4)
    want = np.stack([f(row) for row in x])
    np.testing.assert_allclose(nf.vmap(f)(y), want, rtol=1e-14)
    np.testing.assert_array_equal(y, x)  # what the function did to its argument


@pytest.mark.parametrize("f", [views, masked, chosen, argument],
                         ids=lambda f: f.__name__)
def test_fused(f):
    x, y = samples(4), samples(4)
    want = np.stack([f(row) for row in x])
    np.testing.assert_allclose(nf.fuse(nf.vmap(f))(y), want, rtol=1e-14)
    np.testing.assert_array_equal(y, x)


def test_reshapes_that_may_be_copies_are_refused_in_fuse():
    with pytest.raises(KernelTypeError, match=r"whether that is a copy[\s\S]*x.copy"):
        nf.fuse(nf.vmap(reshaped))(samples(4))


def elimination(a):
    a = a + 4 * np.eye(3)
    for k in range(3):
        a[k + 1:] -= (a[k + 1:, k:k + 1] / a[k, k]) * a[k]
    return a


def test_matrices_along_another_axis():
    a = samples(3, 3)
    want = np.stack([elimination(one) for one in a], axis=1)
    found = nf.vmap(elimination, in_axes=1, out_axes=1)(np.moveaxis(a, 0, 1))
    np.testing.assert_allclose(found, want, rtol=1e-12)


def test_an_argument_along_another_axis_is_changed_there():
    x = np.asfortranarray(samples(4).T)
    want = x + 1
    want[0] = 5.0
    nf.vmap(argument, in_axes=1)(x)
    np.testing.assert_array_equal(x, want)


def loss(x):
    y = x * x
    y[0] = y[1] * 3
    y[2] *= x[0]
    part = y[1:3]
    part += x[3]
    return (y * y).sum()


def central(f, x, step=1e-6):
    return np.array([(f(x + e) - f(x - e)) / (2 * step)
                     for e in np.eye(x.size) * step])


def test_gradients_inside():
    x = samples(4)
    want = np.stack([central(loss, row) for row in x])
    np.testing.assert_allclose(nf.vmap(nf.grad(loss))(x), want, rtol=1e-6)
    np.testing.assert_allclose(nf.fuse(nf.vmap(nf.grad(loss)))(x), want, rtol=1e-6)
    tangent = np.ones(4)
    _, found = nf.vmap(lambda x: nf.jvp(loss, (x,), (tangent,)))(x)
    np.testing.assert_allclose(found, want.sum(axis=1), rtol=1e-6)


def test_second_derivatives():
    x = samples(4)
    gradient = nf.grad(loss)
    want = np.stack([central(gradient, row, 1e-5) for row in x])
    np.testing.assert_allclose(nf.vmap(nf.hessian(loss))(x), want, rtol=1e-6, atol=1e-7)


def test_gradient_from_outside():
    x = samples(4)

    def each(w, row):
        y = row * w
        y[0] = w[1]
        y[1:] += y[:-1] * 1
        return (y**2).sum()

    def total(w):
        return nf.ops.sum(nf.vmap(each, in_axes=(None, 0))(w, x))

    w = np.arange(1.0, 5.0)
    np.testing.assert_allclose(
        nf.grad(total)(w), central(lambda w: sum(each(w, row) for row in x), w),
        rtol=1e-6)


@pytest.mark.parametrize("index", [
    lambda a, i: a[i], lambda a, i: a[:, i], lambda a, i: a[1, i],
    lambda a, i: a[i, 1:], lambda a, i: a[..., i, None], lambda a, i: a[i, i],
], ids=["rows", "columns", "element", "and slice", "ellipsis", "twice"])
def test_an_integer_of_each_sample_is_an_index(index):
    a, i = samples(3, 3), np.array([0, -1, 2, 1, -3])
    want = np.stack([index(one, k) for one, k in zip(a, i, strict=True)])
    np.testing.assert_array_equal(nf.vmap(index)(a, i), want)
    slope = nf.vmap(nf.grad(lambda a, i: (index(a, i)**2).sum()))(a, i)
    changed = np.zeros_like(a)
    for k in range(N):
        np.add.at(changed[k], *_where(index, a[k], i[k]))
    np.testing.assert_allclose(slope, changed, rtol=1e-14)


def _where(index, a, i):
    """The places that an index reads, and twice what is there."""
    places = index(np.arange(a.size).reshape(a.shape), i)
    flat = np.unravel_index(np.ravel(places), a.shape)
    return flat, 2 * a[flat]


def test_store_at_an_integer_of_each_sample():
    def f(a, i):
        b = a * 1
        b[:, i] += a[:, 0]
        b[i, 0] = 7.0
        return b

    a, i = samples(3, 3), np.array([0, -1, 2, 1, -3])
    want = np.stack([f(one, k) for one, k in zip(a, i, strict=True)])
    np.testing.assert_array_equal(nf.vmap(f)(a, i), want)


def _two(f, in_axes=0):
    def call():
        x = samples(4)
        return nf.vmap(f, in_axes)(np.ones(4) if in_axes != 0 else x, x)
    return call


def _add(x, y):
    x += y
    return x


SHARED = nf.Variable(np.ones(4))


def _closed_over(x):
    SHARED[0] = x[0]
    return x


def _inside(x):
    y = x * 1

    def inner(z):
        y[0] = z
        return y

    return nf.vmap(inner)(x)


def scaled_by_itself(x):
    y = x * 1.0
    y.fill(4.0)
    y *= x[-1]
    return np.cos(y).sum()


def test_what_a_tape_inside_has_saved_stays_as_it_was():
    """`y` is on no tape when its product is recorded, and changed by that."""
    x = samples(2, 3)
    found = nf.vmap(nf.grad(scaled_by_itself))(x)
    expected = np.zeros_like(x)
    expected[:, -1] = -8.0 * np.sin(4.0 * x[:, -1])
    np.testing.assert_allclose(found, expected)


def test_no_elements_are_assigned_to_through_a_view():
    def assigned(x):
        y = x * 1.0
        y.T[...] = 3.0
        return y.T

    assert nf.vmap(assigned)(samples(0, 4)).shape == (N, 4, 0)


@pytest.mark.parametrize("run", [lambda f: f, nf.fuse], ids=["eager", "fuse"])
def test_a_number_that_is_added_in_several_places_gets_the_gradient_of_each(run):
    """Samples differ in the number only: which one a point is of is not lost."""
    def added(number):
        y = np.zeros(3) + 0.0 * number
        np.add.at(y, [0, 1, 1], number)
        return (y * np.array([1.0, 10.0, 100.0])).sum()

    def weighted(x, weights):
        return (nf.vmap(added)(x) * weights).sum()

    weights = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(run(nf.grad(weighted))(np.ones(3), weights),
                               21.0 * weights)


def _cleared(x):
    """As of the game of life: a number for all, and then others."""
    sums = x[1:] + x[:-1]
    x[...] = 0.0
    x[1:][sums > 0] = 7.0
    return sums


def _filled(x):
    x[...] = 5.0
    return x.sum()


def _taken_over(x, y):
    y[:] = x
    y *= 2.0
    x += y
    return y.sum()


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("function", [_cleared, _filled])
def test_an_argument_is_first_the_same_for_all_samples(function, axis):
    """Its values are, and not the argument: what follows is another for each."""
    given = samples(4).swapaxes(0, axis)
    for part in (expected := given.copy()).swapaxes(0, axis):
        function(part)
    nf.vmap(function, in_axes=axis)(given)
    np.testing.assert_array_equal(given, expected)


def test_an_argument_takes_over_another_one():
    x, y = samples(3), samples(3, seed=1)
    u, v = x.copy(), y.copy()
    expected = [_taken_over(a, b) for a, b in zip(u, v, strict=True)]
    np.testing.assert_allclose(nf.vmap(_taken_over)(x, y), expected)
    np.testing.assert_allclose((x, y), (u, v))


def test_a_list_beside_an_argument_is_added_in_place():
    def shifted(x):
        x += (1.0, 2.0, 3.0, 4.0)
        return x * [[2.0], [3.0]]

    x = samples(4)
    np.testing.assert_allclose(nf.vmap(shifted)(given := x.copy()), [
        shifted(part) for part in x])
    np.testing.assert_allclose(given, x)




REFUSED = {
    "shared argument": (_two(_add, (None, 0)), KernelTypeError, "all samples share"),
    "closed over": (lambda: nf.vmap(_closed_over)(samples(4)), KernelTypeError,
                    "the same for all calls or samples"),
    "memory of another": (lambda: (lambda x: nf.vmap(_add)(x, x))(samples(4)),
                          KernelTypeError, "memory of another argument"),
    "vmap inside": (lambda: nf.vmap(_inside)(samples(4)), KernelTypeError,
                    "shared by all samples of a vmap inside"),
    "leaf": (lambda: nf.vmap(nf.grad(lambda x: _add(x, 1.0).sum()))(samples(4)),
             TapeError, "what a transform inside differentiates"),
    "shape": (lambda: nf.vmap(lambda x: _add(x.sum(), x))(samples(4)), ShapeError,
              r"x has shape \(\) and the result \(4,\)"),
    "dtype": (lambda: nf.vmap(lambda x: _add((x > 0) * 1, 0.5))(samples(4)),
              KernelTypeError, "x has dtype int64"),
    "detached": (lambda: nf.vmap(lambda x: _add((x * 1).detach(), 1.0))(samples(4)),
                 KernelTypeError, r"detach\(\) of a placeholder"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_changes_that_others_would_miss_are_refused(name):
    call, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        call()
