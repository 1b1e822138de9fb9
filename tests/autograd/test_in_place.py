"""``x op= y`` and ``x[index] = y`` on Variables: stored, or recorded."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import InplaceModificationError, KernelTypeError, TapeError
from tests.numpy_functions.agreement import check, normal

pytestmark = pytest.mark.interpreted

IN_PLACE = [operator.iadd, operator.isub, operator.imul, operator.itruediv]
X, Y = normal(3, 4), normal(3, 4, seed=1) + 3.0


@pytest.mark.parametrize("op", IN_PLACE)
@pytest.mark.parametrize("of", [lambda y: y, lambda y: y[0], lambda y: 1.5],
                         ids=["array", "row", "number"])
def test_operator_on_what_was_computed(op, of):
    check(lambda x, y: op(x * y, of(y)), X, Y)


def test_the_object_stays_and_saved_arrays_too():
    w = nf.Variable(X, requires_grad=True)
    x = nf.ops.exp(w)  # saves its result
    same = x
    x *= 2.0
    assert same is x
    np.testing.assert_allclose(x.to_numpy(), 2 * np.exp(X))
    x.sum().backward()
    np.testing.assert_allclose(w.grad, 2 * np.exp(X))


KEYS = {
    "integer": 1, "slice": slice(1, None), "column": (slice(None), 2),
    "element": (0, 3), "step": (slice(None, None, -2), slice(1, 3)), "all": ...,
    "new axis": (None, 1), "rows": np.array([2, 0]),
    "pairs": (np.array([0, 2]), np.array([1, 3])), "mask": X > 0,
    "mask of rows": np.array([True, False, True]),
}


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("recorded", ["x", "y", "both"])
def test_assignment(key, recorded):
    part = X[key]

    def function(x, y):
        made = x * 2.0
        made[key] = y * 3.0
        return made * made

    value = normal(*part.shape, seed=5)
    if recorded == "both":
        check(function, X, value)
        return
    x, y = (nf.Variable(a, requires_grad=recorded == name)
            for name, a in (("x", X), ("y", value)))
    found = function(x, y)
    np.testing.assert_allclose(found.to_numpy(), function(X.copy(), value))
    if key is ... and recorded == "x":  # nothing of it is left
        assert not found.requires_grad
        return
    found.sum().backward()
    wanted = nf.Variable(X, requires_grad=True), nf.Variable(value, requires_grad=True)
    function(*wanted).sum().backward()
    k = recorded == "y"
    np.testing.assert_allclose((x, y)[k].grad, wanted[k].grad)


@pytest.mark.parametrize("value", [2, 2.5, np.float64(3.0), np.ones(4)])
@pytest.mark.parametrize("key", [1, slice(0, 2), X > 0.5])
def test_assignment_of_numbers(key, value):
    if np.ndim(value) and isinstance(key, np.ndarray):
        return  # NumPy takes as many numbers as are chosen

    def function(x):
        made = x * 2.0
        made[key] = value
        return made

    check(function, X)


def test_later_ones_of_equal_places_win():
    check(lambda x, y: _stored(x, np.array([1, 0, 1]), y), X, normal(3, 4, seed=2))


def _stored(x, key, y):
    made = x * 1.0
    made[key] = y
    return made


def test_what_is_not_recorded_is_stored():
    data = X.copy()
    x = nf.Variable(data)
    x[1] = 5
    x[x > 4] = nf.Variable(np.array(6.0))
    assert x.data is data
    np.testing.assert_array_equal(data[1], [6.0] * 4)
    w = nf.Variable(X, requires_grad=True)
    x[0] = w[0]
    assert x.data is data
    np.testing.assert_array_equal(data[0], X[0])
    with nf.no_grad():
        w[0] = 1.0
    assert w.requires_grad
    np.testing.assert_array_equal(w.data[0], [1.0] * 4)


def test_storing_into_what_is_saved_is_seen():
    data = X.copy()
    w = nf.Variable(Y, requires_grad=True)
    y = nf.Variable(data) * w
    nf.Variable(data)[0] = 1.0
    with pytest.raises(InplaceModificationError):
        y.sum().backward()


def test_leaves_are_refused_also_through_views():
    w = nf.Variable(X.copy(), requires_grad=True)
    with pytest.raises(TapeError, match=r"x\[index\] = y.*no_grad"):
        w[0] = 1.0
    with pytest.raises(TapeError, match="no_grad"):
        w[0] *= 2.0
    np.testing.assert_array_equal(w.to_numpy(), X)


def test_views_show_what_was_changed_and_change_what_they_show():
    def function(x):
        made = x * 2.0
        row, corner, flat = made[1], made[1:][0], made.reshape(-1)
        made[0] = row * 3.0
        row *= corner
        made.T[2] -= 1.0
        flat[5] += made[2, 1]
        made[:, ::2] /= made[:, ::2][::-1] + 9.0
        return made, row, corner, flat

    check(function, X)


def test_a_view_of_what_is_not_recorded_passes_gradients_on():
    def function(x):
        made = np.zeros_like(x) + 1.0
        row, corner = made[0], made[1:, 1:]
        row += x[0] * x[1]
        corner *= x[:2, :3]
        return made, row

    check(function, X)


def test_a_reshape_that_is_a_copy_is_no_view():
    def function(x):
        made = x * 2.0
        copy = made.T.reshape(-1)
        copy += made[0, 0]
        made *= 3.0
        return made, copy

    check(function, X)


def test_views_of_what_is_gone():
    w = nf.Variable(X, requires_grad=True)
    x = (w * 2.0).T  # of a temporary array
    x *= 3.0
    np.testing.assert_allclose(x.to_numpy(), 6 * X.T)
    base = w * 3.0
    first, second = base[0], base[1]
    del base
    with pytest.raises(TapeError, match="a view of what other views show"):
        first += 1.0
    del second
    first += 1.0
    (x.sum() + first.sum()).backward()
    expected = np.full(X.shape, 6.0)
    expected[0] += 3.0
    np.testing.assert_allclose(w.grad, expected)


def view(x, number):
    """One of the views that NumPy makes of an array."""
    return [lambda: x[number % len(x)] if x.ndim > 1 else x[:2], lambda: x.T,
            lambda: x[::-1], lambda: x[..., ::2], lambda: x[None],
            lambda: x.reshape(-1), lambda: x.swapaxes(0, -1), lambda: x[1:]][
                number % 8]()


def program(x, steps):
    """Views are taken, and changed in place, in some order."""
    pool = [x * 1.0]
    for kind, k, number, factor in steps:
        a, b = pool[k % len(pool)], pool[number % len(pool)]
        if kind < 3:
            made = view(a, number)
            pool += [made] if made.ndim and 0 not in made.shape else []
        elif kind == 3:
            a *= factor
        elif kind == 4:
            a += b if a.shape == b.shape else 1.0
        elif kind == 5:
            a[0] = factor
        elif kind == 6:
            a[..., -1] *= 2.0
        elif kind == 7:
            a[...] = b.sum() * 0.1
        else:
            pool.append(a * factor + 1.0)
    return pool


@pytest.mark.parametrize("seed", [
    *range(40), 1009, 1053, 1066, 1422, 5341, 5782, 5882, 6351, 6867])
def test_programs_of_views_are_as_numpys_or_refused(seed):
    rng = np.random.default_rng(seed)
    steps = [(*map(int, rng.integers(0, (9, 1000, 1000))), float(rng.normal()))
             for _ in range(rng.integers(3, 20))]
    try:
        check(lambda x: program(x, steps), X)
    except TapeError as error:  # views live of what is no Variable any more
        if "a view of what other views show" not in str(error):
            raise


def test_masks_and_index_arrays_with_operators():
    def function(x, y):
        made = x * 2.0
        made[made > 0.5] *= 3.0
        made[np.array([0, 2])] += y[:2]
        return made

    check(function, X, Y)


def test_a_copy_is_no_view():
    x = nf.Variable(X, requires_grad=True) * 2.0
    row, fresh = x[0], x.copy()
    fresh += 1.0
    np.testing.assert_allclose(row.to_numpy(), 2 * X[0])


@pytest.mark.parametrize(("store", "message"), [
    (lambda x: x.__iadd__(np.ones((2, 3, 4))), "result has"),
    (lambda x: x.__imul__(1j), "result complex128"),
    (lambda x: x.__setitem__(0, 1j), "does not fit"),
])
def test_other_shapes_and_kinds_are_refused(store, message):
    x = nf.Variable(X, requires_grad=True) * 1.0
    with pytest.raises((KernelTypeError, ValueError, NotImplementedError),
                       match=message):
        store(x)
    with pytest.raises(KernelTypeError, match="does not fit"):
        nf.Variable(np.zeros(2, np.int32))[0] = 1.5


def test_results_keep_the_dtype():
    x = nf.Variable(X.astype(np.float32), requires_grad=True) * 1
    x += nf.Variable(Y)
    assert x.dtype == np.float32


def test_a_mask_without_axes():
    one, none = (nf.Variable(np.array(t)) for t in (True, False))
    for x in (np.array(2.0), X):
        v = nf.Variable(x)
        np.testing.assert_array_equal(v[one].to_numpy(), x[np.array(True)])
        np.testing.assert_array_equal(v[none].to_numpy(), x[np.array(False)])
    np.testing.assert_array_equal(nf.Variable(X)[1:, one].to_numpy(),
                                  X[1:, np.array(True)])


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 4), (0, 0)])
def test_a_mask_without_elements(shape):
    mask = np.zeros(shape, bool)
    assert nf.Variable(X)[mask].shape == X[mask].shape


@pytest.mark.parametrize("op", IN_PLACE)
def test_an_array_without_gradient_gets_one(op):
    data = X.copy()
    plain, w = nf.Variable(data), nf.Variable(Y, requires_grad=True)
    view = plain[0]
    plain = op(plain, w)
    np.testing.assert_allclose(data, op(X.copy(), Y))
    np.testing.assert_allclose(view.to_numpy(), data[0])
    (plain * plain).sum().backward()
    again = nf.Variable(Y, requires_grad=True)
    pure = {"iadd": lambda: X + again, "isub": lambda: X - again,
            "imul": lambda: X * again, "itruediv": lambda: X / again}[op.__name__]()
    (pure * pure).sum().backward()
    np.testing.assert_allclose(w.grad, again.grad)


def test_arguments_of_transforms_are_refused():
    """The array outside would not see the change."""
    def function(x):
        x *= 2.0
        return x.sum()

    with pytest.raises(TapeError, match=r"x = x \* y"):
        nf.grad(function)(X)
    with pytest.raises(TapeError, match=r"x = x \* y"):
        nf.grad(lambda x: nf.grad(function)(x * 1.0).sum())(X)
    np.testing.assert_allclose(nf.grad(lambda x: function(x * 3.0))(X), np.full(
        X.shape, 6.0))


@pytest.mark.parametrize("x", [X, X[0, 0]], ids=["matrix", "number"])
@pytest.mark.parametrize("truth", [True, False])
def test_assignment_by_a_mask_without_axes(x, truth):
    mask, values = np.array(truth), np.full((1, *np.shape(x)), 2.0)

    def function(a, b):
        made = a * 3.0 if isinstance(a, nf.Variable) else np.asarray(a * 3.0)
        made[mask] = b if truth else b[:0]
        return made

    check(function, np.asarray(x), values)


def test_what_was_assigned_is_not_shared():
    w = nf.Variable(X, requires_grad=True)
    y = w * 3.0
    x = w * 2.0
    x[...] = y
    with nf.no_grad():
        x += 1.0
    np.testing.assert_allclose(y.to_numpy(), 3 * X)
    plain, x = nf.Variable(X.copy()), w * 2.0
    x[...] = plain
    x += 1.0
    np.testing.assert_array_equal(plain.to_numpy(), X)


def test_what_joins_arrays_is_no_view_of_them():
    a, b = nf.Variable(np.ones(2)), nf.Variable(np.zeros(2))
    joined = np.concatenate([a, b])
    after = np.append(np.full(1, 3.0), a)  # an array beside a Variable
    a += 1
    np.testing.assert_array_equal(joined.data, [1, 1, 0, 0])
    np.testing.assert_array_equal(after.data, [3, 1, 1])


@pytest.mark.parametrize(("shape", "index"), [
    ((3,), ...), ((), ...), ((3,), np.array([2, 0])), ((2, 3), (1, slice(1)))])
def test_what_is_assigned_may_have_ones_in_front(shape, index):
    value = nf.Variable(np.full((1, 1, 1), 5.0), requires_grad=True)
    x, want = nf.Variable(np.zeros(shape)), np.zeros(shape)
    want[index] = np.full((1, 1, 1), 5.0)
    x[index] = value * 1
    np.testing.assert_array_equal(x.data, want)
    x.sum().backward()
    np.testing.assert_array_equal(value.grad, [[[want.sum() / 5]]])


@pytest.mark.parametrize("index", [
    (slice(None), slice(1, 1)), (slice(None, None, 2), slice(1, None), None),
    slice(0, 0)])
def test_a_part_of_no_elements_changes_nothing(index):
    """What is stored into is then the same node, and so are its views."""
    def f(x):
        t = x.max(axis=-1)
        seen = t.T
        t[index] += 2.0
        return (t * seen.T).sum()

    x = nf.Variable(np.array([[[1.0, 3.0]]]), requires_grad=True)
    f(x).backward()
    np.testing.assert_array_equal(x.grad, [[[0.0, 6.0]]])


def test_what_is_joined_of_views_does_not_follow(device):
    """np.roll joins two slices of a view: a change of the array leaves it alone."""
    def rolled(x):
        y = x * 1.0
        moved = np.roll(y, -1)
        y[...] = 2.0
        return moved, y

    x = np.arange(6.0).reshape(3, 2)
    w = nf.Variable(nf.array(x, device=device), requires_grad=True)
    moved, _ = rolled(w)
    np.testing.assert_array_equal(nf.to_numpy(moved.data), rolled(x)[0])
    (moved * moved).sum().backward()
    np.testing.assert_array_equal(nf.to_numpy(w.grad), 2 * x)
