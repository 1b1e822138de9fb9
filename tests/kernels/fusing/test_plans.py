"""Plans of fused functions: the same results as without, whatever comes."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import OverlapError, RangeError

pytestmark = [pytest.mark.interpreted,
              pytest.mark.filterwarnings("ignore:fuse.*decorated again")]


def _several(x, y, s):
    hidden = np.tanh(x @ y * s)
    scaled = hidden - hidden.mean(0)
    return scaled.T, (scaled ** 2).sum(1), nf.ops.softmax(scaled)[1:]


def _arrays(seed, shape=(12, 8), dtype="f4"):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=shape).astype(dtype),
            rng.normal(size=shape[::-1]).astype(dtype))


def _on(device, x):
    """An array of NumPy, or a Variable of one on a GPU: ours have no operators."""
    return x if device == "cpu" else nf.Variable(nf.array(x, device=device))


def _planned(fused):
    """The plans that were made."""
    return [p for p in fused._plans._states.values() if not isinstance(p, bool)]


def _compare(found, expected):
    for a, b in zip(found, expected, strict=True):
        a, b = nf.to_numpy(a), nf.to_numpy(b)
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


@pytest.mark.compiled
def test_a_plan_is_made_in_the_second_call(device):
    fused = nf.fuse(_several)
    for call in range(5):
        x, y = (_on(device, v) for v in _arrays(call))
        assert len(_planned(fused)) == (call > 1)
        _compare(fused(x, y, 0.5 + call), _several(x, y, 0.5 + call))
    assert fused.cache_info().hits == 4
    fused.clear_cache()
    assert not _planned(fused)


def test_layouts_have_plans_of_their_own(device):
    fused = nf.fuse(_several)
    for _ in range(3):
        for k, (rows, columns) in enumerate([(12, 8), (5, 3), (1, 8), (12, 8)]):
            x, y = (_on(device, v) for v in _arrays(k, (2 * rows, columns)))
            for a, b in ((x, y), (x[::2], y[:, ::2])):
                _compare(fused(a, b, 2.0), _several(a, b, 2.0))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1)])
def test_arrays_of_no_or_one_element(shape):
    fused = nf.fuse(lambda x, y: (x * 2 + y.T, (x - y.T).sum(0)))
    x, y = _arrays(0, shape)
    for _ in range(4):
        _compare(fused(x, y), (x * 2 + y.T, (x - y.T).sum(0)))


def test_no_elements_beside_some():
    """What launches nothing has an address that no launch of a sequence reads."""
    def function(x, y):
        return y * 2, y.sum(), np.tanh(y).sum(0), x + 1, x - y.sum()

    fused = nf.fuse(function)
    x, y = np.zeros((0, 3)), _arrays(0)[0]
    for _ in range(4):
        _compare(fused(x, y), function(x, y))
    assert _planned(fused)


def test_results_are_new_and_arguments_are_themselves():
    fused = nf.fuse(lambda x, y: (x, x + y.T, (x * 3)[2:]))
    kept = []
    for k in range(6):
        x, y = _arrays(k)
        kept.append((x, y, fused(x, y)))
    for x, y, (same, total, part) in kept:  # later calls have not written to them
        assert same is x
        np.testing.assert_array_equal(total, x + y.T)
        np.testing.assert_array_equal(part, (x * 3)[2:])
        assert part.flags.writeable


def test_changes_in_place_and_numbers_of_the_call():
    @nf.fuse
    def update(x, y, rate, step):
        x *= 1 - rate / (step + 1)
        x += y.T
        return x.sum()

    mine, y = _arrays(0, dtype="f8")
    theirs = mine.copy()
    for step in range(6):
        rate = 0.1 / (step + 1)
        theirs *= 1 - rate / (step + 1)
        theirs += y.T
        np.testing.assert_allclose(update(mine, y, rate, step), theirs.sum())
        np.testing.assert_allclose(mine, theirs)
    assert _planned(update)
    assert update.cache_info().misses == 1


NUMBERS = {
    "bool": (True, False), "np.bool_": (np.bool_(True), np.bool_(False)),
    "int": (3, -4), "large int": (2**40, -2**62), "float": (0.5, -2.25),
    "complex": (1j, 2 - 1j), "np.float32": (np.float32(0.1), np.float32(3)),
    "np.int8": (np.int8(3), np.int8(-100)), "np.uint64": (np.uint64(3), np.uint64(5)),
}


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_of_every_type_are_those_of_the_call(kind):
    def function(x, n):
        return np.where(n == 3, x, x * n), x + n

    fused, x = nf.fuse(function), np.arange(6.0)
    for n in NUMBERS[kind] * 3:
        for found, expected in zip(fused(x, n), function(x, n), strict=True):
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)
    assert _planned(fused)


@pytest.mark.parametrize("dtype", ["i8", "i1"])
def test_integers_that_do_not_fit_are_refused(dtype):
    fused, x = nf.fuse(lambda x, n: x * n), np.arange(6, dtype=dtype)
    for n in (1, 2, 3):
        np.testing.assert_array_equal(fused(x, n), x * n)
    assert _planned(fused)
    with pytest.raises(RangeError, match="out of range"):
        fused(x, 2**70)


def test_arguments_that_share_memory_are_refused():
    @nf.fuse
    def shift(x, y):
        x += y

    memory = np.arange(20.0)
    for _ in range(3):
        shift(memory[:10].copy(), memory[10:])
    before = memory.copy()
    with pytest.raises(OverlapError, match="shares memory"):
        shift(memory[2:12], memory[10:])
    np.testing.assert_array_equal(memory, before)


def test_read_only_arguments_are_refused():
    @nf.fuse
    def double(x):
        x *= 2

    x = np.ones(4)
    for _ in range(3):
        double(x)
    x.flags.writeable = False
    with pytest.raises(nf.errors.ReadOnlyError):
        double(x)
    np.testing.assert_array_equal(x, np.full(4, 8.0))


def test_checks_of_indices_stay():
    @nf.fuse
    def pick(scores, labels):
        return nf.ops.cross_entropy(scores, labels)

    scores, labels = _arrays(0)[0], np.arange(12) % 8
    for _ in range(3):
        pick(scores, labels)
    labels[3] = 8
    with pytest.raises(RangeError, match="got 8"):
        pick(scores, labels)


def test_a_tape_sees_what_was_planned_before():
    fused = nf.fuse(lambda x, y: (np.tanh(x) * y.T).sum())
    x, y = _arrays(0, dtype="f8")
    for _ in range(3):
        fused(nf.Variable(x), y)
    assert _planned(fused)
    v = nf.Variable(x, requires_grad=True)
    fused(v, y).backward()
    np.testing.assert_allclose(v.grad, (1 - np.tanh(x) ** 2) * y.T)
    assert isinstance(fused(nf.Variable(x), y), nf.Variable)
    assert isinstance(fused(x, y), np.ndarray | np.floating)


def test_a_write_by_a_plan_is_noted():
    @nf.fuse
    def clear(x):
        x *= 0

    for _ in range(3):
        clear(np.ones(3))
    w = nf.Variable(np.ones(3), requires_grad=True)
    x = np.ones(3)
    loss = (w * nf.Variable(x)).sum()
    clear(x)
    with pytest.raises(nf.errors.InplaceModificationError):
        loss.backward()


@pytest.mark.compiled
def test_the_number_of_threads_and_settings_may_change(monkeypatch):
    fused = nf.fuse(_several)
    x, y = _arrays(0, (400, 300))
    for _ in range(3):
        expected = fused(x, y, 1.0)
    monkeypatch.setattr(nf.config, "num_threads", 1)
    _compare(fused(x, y, 1.0), expected)
    monkeypatch.setattr(nf.config, "deterministic", True)
    for _ in range(3):
        _compare(fused(x, y, 1.0), expected)


@pytest.mark.compiled
def test_many_threads_use_one_plan():
    fused, wrong = nf.fuse(_several), []
    expected = {k: _several(*_arrays(k), 1.0) for k in range(4)}

    def work(k):
        for _ in range(200):
            found = fused(*_arrays(k), 1.0)
            if not all(np.allclose(a, b, atol=1e-6)
                       for a, b in zip(found, expected[k], strict=True)):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in expected]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_launches_are_traced_as_without_a_plan():
    fused, (x, y) = nf.fuse(_several), _arrays(0)
    seen = []
    for _ in range(4):
        with nf.trace_launches() as launches:
            fused(x, y, 1.0)
        seen.append(list(launches))
    assert seen[0]
    assert all(launches == seen[0] for launches in seen)


def _gathered(table, x, indices):
    """A gather's gradient, which is added to zeros, and elements beside it."""
    def loss(table):
        return nf.ops.sum(nf.ops.take(table, indices, axis=0) ** 2.0)

    value, slope = nf.value_and_grad(loss)(table)
    return value, slope, nf.ops.softmax(x), nf.ops.sum(x, axis=0)


@pytest.mark.compiled
@pytest.mark.parametrize("count", [0, 5])
def test_what_is_added_to_zeros_is_cleared_in_each_call(count, device):
    """Of no indices, too, which launch nothing but what clears."""
    fused, rng = nf.fuse(_gathered), np.random.default_rng(0)
    for k in range(6):
        table, x = _arrays(k)
        indices = rng.integers(-12, 12, size=count)
        expected = _gathered(table, x, indices)
        with nf.trace_launches() as unfused:
            _gathered(*(_on(device, a) for a in (table, x, indices)))
        with nf.trace_launches() as launches:
            found = fused(*(_on(device, a) for a in (table, x, indices)))
        _compare(found, expected)
        cleared = [one.name for one in launches if one.name == "zero"]
        assert cleared == [one.name for one in unfused if one.name == "zero"]
        assert cleared
        del found
        np.full((12, 8), 9.0, np.float32)  # where the next result may be put
    (plan,) = _planned(fused)
    assert plan.sequence is not None


@pytest.mark.compiled
def test_memory_is_used_again():
    """A chain of large arrays takes two of them, not one for each step."""
    @nf.fuse
    def chain(x, a):
        for _ in range(6):
            x = nf.ops.softmax(x) @ a
        return x

    x, a = np.ones((640, 256), "f4"), np.eye(256, dtype="f4")
    for _ in range(3):
        chain(x, a)
    (plan,) = _planned(chain)
    assert plan.new_arena is not None
    assert plan.new_arena().nbytes <= 3 * x.nbytes


def test_a_number_and_an_array_that_change_places():
    fused, x = nf.fuse(lambda x, y, z: x * 2 + y * 3 + z * 5), np.arange(6.0)
    for _ in range(3):
        for y, z in ((x + 1, 2), (2, x + 1)):
            np.testing.assert_array_equal(fused(x, y, z), x * 2 + y * 3 + z * 5)


def _heads(x, labels):
    """As attention divides a width among heads, and joins them again."""
    split = nf.ops.transpose(x.reshape(2, 3, 2, 4), (0, 2, 1, 3))
    joined = nf.ops.transpose(nf.ops.exp(split), (0, 2, 1, 3)).reshape(6, 8)
    return nf.ops.cross_entropy(joined, labels.reshape(-1))


def test_reshapes_that_copy_and_labels_that_are_reshaped_have_a_plan():
    fused = nf.fuse(_heads)
    labels = np.arange(6).reshape(2, 3)
    for seed in range(4):
        x = np.random.default_rng(seed).normal(size=(2, 3, 8))
        want = np.exp(x).reshape(6, 8)
        want = (np.log(np.exp(want).sum(1)) - want[np.arange(6), np.arange(6)]).mean()
        np.testing.assert_allclose(fused(x, labels), want)
    (plan,) = _planned(fused)
    assert len(plan.steps) >= 2
    labels[1, 2] = 8
    with pytest.raises(RangeError, match="8"):
        fused(x, labels)


def test_a_reshape_that_copies_is_returned():
    fused = nf.fuse(lambda x: (x * 2).T.reshape(-1))
    for seed in range(4):
        x = np.random.default_rng(seed).normal(size=(3, 5))
        np.testing.assert_array_equal(fused(x), (x * 2).T.reshape(-1))


def test_whose_memory_it_is_makes_no_other_plan():
    """A view of a whole array lies as the array does."""
    x, fused = np.arange(12.0).reshape(3, 4), nf.fuse(lambda x: (x @ x.T) * 2)
    for one in (x.copy(), x, x.copy()[:], x.copy(), x[:3]):
        np.testing.assert_array_equal(fused(one), (x @ x.T) * 2)
    assert len(fused._plans._states) == 1

@pytest.mark.parametrize("planned", [False, True])
def test_what_is_computed_is_looked_at_before_anything_is_stored(planned):
    """An index of its own, and an array that is changed in place before and after."""
    @nf.fuse
    def moved(x, y):
        x += 1.0
        found = x[(y * 4).astype(int)]
        x *= found
        return found

    def plainly(x, y):
        x += 1.0
        found = x[(y * 4).astype(int)]
        x *= found
        return found

    x, inside, outside = np.arange(4.0), np.full(4, 0.8), np.array([0.0, 0.1, 2.0, 0.3])
    for _ in range(3 if planned else 1):
        given, expected = x.copy(), x.copy()
        np.testing.assert_array_equal(moved(given, inside), plainly(expected, inside))
        np.testing.assert_array_equal(given, expected)
    if planned:
        assert _planned(moved)
    with pytest.raises(RangeError, match="got 8"):
        moved(x, outside)
    np.testing.assert_array_equal(x, np.arange(4.0))


def test_numbers_that_a_called_function_gives_have_a_plan():
    """NumPy's det is a scalar of its own, where a launch takes an array."""
    @nf.fuse
    def evidence(x):
        return np.sum(x * 2.0) * np.log(np.linalg.det(x)), np.linalg.det(x * 2.0)

    x = np.eye(3) * 2.0
    for _ in range(3):
        found = evidence(x)
        np.testing.assert_allclose(found, [12 * np.log(8.0), 64.0])
        assert all(type(y) is np.ndarray for y in found)
    (plan,) = _planned(evidence)
    assert all(part.plan for part in plan._parts if hasattr(part, "plan"))
