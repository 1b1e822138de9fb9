"""Direct calls by machine code: the same as calls in Python, whatever the arguments.

Oracle: NumPy.
"""

from __future__ import annotations

import gc
import sys
import threading
import time
import tracemalloc

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops
from nbfused.cpu.runtime import direct
from nbfused.cpu.runtime.pool import POOL
from nbfused.dispatch import direct_call
from nbfused.scalar.language.names import atomic_add
from nbfused.scalar.parse.functions import parse
from nbfused.specs import Map
from tests.variants import sampled

RNG = np.random.default_rng(7)

pytestmark = pytest.mark.skipif(not direct.possible(),
                                reason="objects are laid out in another way")


@nf.elementwise
def blend(x, y, t):
    return x + (y - x) * t


@nf.elementwise
def both(x, y):
    return x + y, x * y


def calls_of(spec, values, outs=None, **options):
    """A direct call, and how often it came to Python."""
    call = direct_call(spec, values, outs, **options)
    made = call.__self__[2].__self__  # the function's own tuple: what else it calls
    count = [0]
    python = made._direct

    def counted(*args):
        count[0] += 1
        return python(*args)

    made._direct = counted
    counted.__kwdefaults__ = python.__kwdefaults__
    counted.__defaults__ = python.__defaults__
    return call, count


def add_call(*values, out=None):
    spec = ops.add.spec(("element", "element"))
    nf.dispatch.execute(spec, values, out=None if out is None else (out,))
    return calls_of(spec, values, None if out is None else (out,))


LAYOUTS = {
    "contiguous": lambda x: x, "reversed": lambda x: x[::-1],
    "every second": lambda x: x[:, ::2], "transposed": lambda x: x.T,
    "fortran": np.asfortranarray, "no elements": lambda x: x[:0],
    "one dimension": lambda x: x.ravel(), "none": lambda x: np.array(x[0, 0]),
    "read-only": lambda x: np.broadcast_to(x[:1], (3, *x.shape)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_layout_is_learnt_once(layout):
    x, y = (LAYOUTS[layout](RNG.normal(size=(6, 8)).astype("f4")) for _ in range(2))
    call, count = add_call(x, y)
    for _ in range(4):
        (found,) = call(x, y)
        assert count[0] == 1 or not x.size  # nothing is launched then
        np.testing.assert_array_equal(found, x + y)
        assert found.strides == (x + y).strides
        assert found.flags.writeable


def test_many_layouts_share_a_function():
    call, count = add_call(np.ones(3), np.ones(3))
    for _ in range(2):
        for n in range(1, 30):
            x = RNG.normal(size=n)
            ops.add(x, x[:1])
            np.testing.assert_array_equal(call(x, x[:1])[0], x + x[:1])
    assert count[0] == 29


def test_more_layouts_than_entries():
    call, _ = add_call(np.ones(3), np.ones(3))
    for _ in range(2):
        for n in range(1, direct.LIMIT + 20):
            x = RNG.normal(size=n)
            ops.add(x, x)
            np.testing.assert_array_equal(call(x, x)[0], x + x)


def test_dtypes_are_told_apart():
    call, _ = add_call(np.ones(3), np.ones(3))
    for dtype in ("f4", "f8", "i4", "i8", "u1", "f2", "f4"):
        x = np.arange(3).astype(dtype)
        ops.add(x, x)
        for _ in range(2):
            (found,) = call(x, x)
            assert found.dtype == (x + x).dtype
            np.testing.assert_array_equal(found, x + x)
    assert call(x, x.astype(">f4")) is None


def test_numbers_are_read_by_their_type():
    spec = blend.spec(("element", "element", "scalar"))
    x, y = RNG.normal(size=(2, 5))
    nf.dispatch.execute(spec, (x, y, 0.5))
    call, count = calls_of(spec, (x, y, 0.5))
    for t in (0.5, -0.0, 1e300, float("inf"), 0.25):
        np.testing.assert_allclose(call(x, y, t)[0], x + (y - x) * t)
    assert count[0] == 1
    for t in (np.float64(0.5), np.float32(0.5), True, 1):  # as before: not known
        assert call(x, y, t) is None or np.allclose(call(x, y, t)[0], x + (y - x)*t)


@pytest.mark.parametrize("dtype", ["f8", "f4", "i2"])
@pytest.mark.parametrize("number", [2.5, np.float64(-2.5), np.float32(0.1), 3,
                                    np.int64(-3), np.int32(-2**31)], ids=repr)
def test_numbers_of_numpy_are_read_like_pythons(number, dtype):
    spec = ops.multiply.spec(("element", "scalar"))
    x = np.arange(4).astype(dtype)
    nf.dispatch.execute(spec, (x, number))
    call, count = calls_of(spec, (x, number))
    for n in (number, type(number)(7), number):
        found = call(x, n)[0]
        assert found.dtype == (x * n).dtype
        np.testing.assert_array_equal(found, x * n)
    assert count[0] == 1


def test_integers_of_more_than_64_bits_are_not_taken():
    spec = ops.multiply.spec(("element", "scalar"))
    x = np.arange(4)
    nf.dispatch.execute(spec, (x, 3))
    call, _ = calls_of(spec, (x, 3))
    for _ in range(3):
        np.testing.assert_array_equal(call(x, -7)[0], x * -7)
    assert call(x, 2**63) is None
    assert call(x, -2**70) is None
    np.testing.assert_array_equal(call(x, 2**62)[0], x * 2**62)


def test_defaults_are_constants():
    spec = blend.spec(("element", "element", "scalar"))
    x, y = RNG.normal(size=(2, 5))
    nf.dispatch.execute(spec, (x, y, 0.5))
    call, count = calls_of(spec, (x, y, 0.5), defaults=(0.5,))
    for _ in range(3):
        np.testing.assert_allclose(call(x, y)[0], x + (y - x) * 0.5)
    assert count[0] == 1


def test_several_results():
    spec = both.spec(("element", "element"))
    x, y = RNG.normal(size=(2, 5))
    nf.dispatch.execute(spec, (x, y))
    call, count = calls_of(spec, (x, y))
    for _ in range(3):
        total, product = call(x, y)
        np.testing.assert_array_equal(total, x + y)
        np.testing.assert_array_equal(product, x * y)
    assert count[0] == 1


def test_outputs_that_were_given():
    x, y, out = RNG.normal(size=(3, 5))
    call, count = add_call(x, y, out=out)
    for _ in range(3):
        assert tuple(call(out, x, y)) == (None,)
        np.testing.assert_array_equal(out, x + y)
    assert count[0] == 1
    before = x.copy()
    call(x, x, y)  # exactly an input
    np.testing.assert_array_equal(x, before + y)


def test_an_output_over_a_part_of_an_input_is_refused():
    whole = RNG.normal(size=9)
    call, _ = add_call(whole[:8], np.ones(8), out=np.empty(8))
    for _ in range(3):
        assert call(np.empty(8), whole[:8], np.ones(8)) is not None
    kept = whole.copy()
    assert call(whole[1:], whole[:8], np.ones(8)) is None
    np.testing.assert_array_equal(whole, kept)
    with pytest.raises(nf.errors.OverlapError):
        ops.add(whole[:8], np.ones(8), out=whole[1:])


def test_a_read_only_output_is_refused():
    x, out = np.ones(5), np.empty(5)
    call, _ = add_call(x, x, out=out)
    call(out, x, x)
    out.flags.writeable = False
    assert call(out, x, x) is None


def test_traces_see_every_launch():
    x = np.ones(5)
    call, _ = add_call(x, x)
    call(x, x)
    with nf.trace_launches() as launches:
        call(x, x)
        call(x, x)
    assert [launch.name for launch in launches] == ["add", "add"]


def test_backends_are_asked_for_again():
    x = np.ones(5)
    call, count = add_call(x, x)
    call(x, x)
    with nf.use_backend("cpu"):
        assert call(x, x) is None  # nothing is prepared in this context
    call(x, x)
    assert count[0] == 2


@pytest.mark.parametrize("setting", [{"deterministic": True}, {"autotune": "0"},
                                     {"num_threads": 1}])
def test_settings_are_looked_at_again(setting):
    x = np.ones(5)
    call, count = add_call(x, x)
    call(x, x)
    with nf.config.override(**setting):
        ops.add(x, x)
        for _ in range(3):
            made = call(x, x)
            assert made is None or made[0].tolist() == [2.0] * 5
    before = count[0]
    call(x, x)
    call(x, x)
    assert count[0] == before + 1


def test_nothing_is_kept_nor_lost():
    x, y = np.ones(50), np.ones(50)
    call, _ = add_call(x, y)
    call(x, y)
    gc.collect()
    counts = [sys.getrefcount(o) for o in (x, y, x.dtype, None)]
    tracemalloc.start()
    for _ in range(100):
        call(x, y)
    first = tracemalloc.get_traced_memory()[0]
    for _ in range(5000):
        call(x, y)
    assert tracemalloc.get_traced_memory()[0] - first < 2000
    tracemalloc.stop()
    after = [sys.getrefcount(o) for o in (x, y, x.dtype, None)]
    assert all(abs(a - b) < 50 for a, b in zip(counts, after, strict=True))


def scatter(i, g, total):
    atomic_add(total, i, g)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8"])
def test_results_that_are_added_to_begin_as_zeros(dtype):
    spec = Map(parse(scatter), ("element", "element", "scatter"),
               scatter_shapes=((40,),))
    i, g = np.array([3, 0, 3]), np.array([1, 2, 4]).astype(dtype)
    nf.dispatch.execute(spec, (i, g))
    call, count = calls_of(spec, (i, g))
    for _ in range(4):
        np.full(40, 7, dtype)  # memory that comes next
        (found,) = call(i, g)
        np.testing.assert_array_equal(np.flatnonzero(found), [0, 3])
        assert found[[0, 3]].tolist() == [2, 5]
        assert found.dtype == dtype
    assert count[0] == 1


@pytest.fixture
def two_threads():
    """Two threads, whose helper lingers: it has just worked."""
    with nf.config.override(num_threads=2):
        yield


def lingering():
    """Wake the helper, if it sleeps."""
    x = np.ones(1 << 17, np.float32)
    ops.add(x, x)


#: Sizes whose last piece would be short, or gone, after a lead.
@pytest.mark.parametrize("size", [1 << 16, (1 << 16) + 1, 70_001, 16 * 4160 + 3])
@pytest.mark.parametrize("shift", [0, 1, 5, 15])
def test_threads_share_a_call(two_threads, size, shift):
    x, y = RNG.normal(size=(2, size + 16)).astype("f4")[:, shift:shift + size]
    expected, out = x + y, np.zeros(size + 32, "f4")
    for target in (None, out[shift:shift + size]):
        call, count = add_call(x, y, out=target)
        given = () if target is None else (target,)
        for _ in range(20):
            lingering()
            (found,) = call(*given, x, y)
            np.testing.assert_array_equal(target if found is None else found, expected)
        # A helper may have slept, or the caller moved.
        assert count[0] < 20 or not POOL._team.patient
    assert not out[:shift].any()
    assert not out[shift + size:].any()
    call(x, x, y)  # each element once
    np.testing.assert_array_equal(x, expected)


def test_threads_that_sleep_are_woken(two_threads):
    x, y = RNG.normal(size=(2, 1 << 17))
    call, count = add_call(x, y)
    call(x, y)
    for _ in range(3):
        time.sleep(0.05)
        before = count[0]
        np.testing.assert_array_equal(call(x, y)[0], x + y)
        assert count[0] == before + 1


@pytest.mark.parametrize("dtype", sampled(["i1", "f2", "f8"], "f2"))
def test_threads_share_rows_and_sums(two_threads, dtype):
    x = RNG.integers(-3, 4, size=(701, 301)).astype(dtype)
    for _ in range(5):
        np.testing.assert_array_equal(ops.sum(x, axis=1), x.sum(1))
        np.testing.assert_array_equal(ops.sum(x), x.sum())
        np.testing.assert_array_equal(ops.max(x, axis=0), x.max(0))
        np.testing.assert_array_equal(ops.add(x[:, ::2], x[:1, :151]),
                                      x[:, ::2] + x[:1, :151])
        np.testing.assert_array_equal(ops.take(x, np.arange(-300, 301)),
                                      x[np.arange(-300, 301)])


def test_numbers_of_threads_are_looked_at_again():
    x = RNG.normal(size=1 << 17)
    call, _ = add_call(x, x)
    for threads in (1, 2, 3, 2):
        with nf.config.override(num_threads=threads):
            for _ in range(3):
                np.testing.assert_array_equal(call(x, x)[0], x + x)


def test_wrong_arguments_come_to_python():
    x = np.ones(5)
    call, _ = add_call(x, x)
    call(x, x)
    for bad in ([1.0] * 5, None, "x", np.float64(1.0)):
        assert call(x, bad) is None
    with pytest.raises(TypeError):
        call(x)
    assert call(np.ones(5, "f4"), np.ones(7, "f4")) is None


def test_products_and_sums_with_temporary_memory():
    a, b = RNG.normal(size=(16, 32)), RNG.normal(size=(32, 8))
    for _ in range(4):
        np.testing.assert_allclose(ops.matmul(a, b), a @ b, rtol=1e-12)
        np.testing.assert_allclose(ops.sum(a), a.sum())
        np.testing.assert_allclose(ops.sum(a, axis=0), a.sum(0))
        np.testing.assert_allclose(ops.linear(a, b, b[0], activation="relu"),
                                   np.maximum(a @ b + b[0], 0), rtol=1e-12)


def test_threads_and_layouts():
    call, _ = add_call(np.ones(3), np.ones(3))
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(2000):
            x = rng.normal(size=int(rng.integers(1, 100)))
            ops.add(x, x)
            if not np.array_equal(call(x, x)[0], x + x):
                wrong.append(x)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    try:
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    finally:
        sys.setswitchinterval(before)
    assert not wrong
