"""Plans that several threads call, and memory of fused functions that are gone."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

import nbfused as nf
from tests.variants import sampled

pytestmark = [pytest.mark.interpreted,
              pytest.mark.filterwarnings("ignore:fuse.*decorated again")]


def _step(w, x):
    value, gradient = nf.value_and_grad(lambda v: (np.tanh(x @ v) ** 2).sum())(w)
    w -= 0.01 * gradient
    return value


def _called_step(w, x):
    return _step(w, x) * 1 + np.sort(x, axis=0)[0].sum()


def _expected(w, x):
    """One step by hand."""
    y = np.tanh(x @ w)
    return (y**2).sum(), w - 0.01 * (x.T @ (2 * y * (1 - y**2)))


@pytest.mark.compiled
@pytest.mark.parametrize("step", [_step, _called_step], ids=lambda f: f.__name__)
@pytest.mark.parametrize("calls", sampled([100, 2500], 100))
def test_threads_with_arrays_that_move(step, calls):
    """Each thread has its own arrays, new ones in each call."""
    fused = nf.fuse(step)
    rng = np.random.default_rng(0)
    for _ in range(3):
        fused(rng.normal(size=(5, 3)), rng.normal(size=(7, 5)))
    wrong: list[str] = []

    def work(seed: int) -> None:
        own = np.random.default_rng(seed)
        w = own.normal(size=(5, 3))
        for k in range(calls):
            x, before = own.normal(size=(7, 5)), w
            w = before.copy()
            value, (right, after) = fused(w, x), _expected(before, x)
            if step is _called_step:
                right += np.sort(x, axis=0)[0].sum()
            if not (np.allclose(value, right) and np.allclose(w, after)):
                wrong.append(f"thread {seed}, call {k}")
                return

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert fused.cache_info().misses == 1


@pytest.mark.parametrize("step", [_step, _called_step], ids=lambda f: f.__name__)
def test_a_function_that_is_gone_leaves_nothing(step):
    fused = nf.fuse(step)
    w, x = np.ones((5, 3)), np.ones((7, 5))
    for _ in range(5):
        fused(w, x)
    (plan,) = fused._plans._states.values()
    programs = [*fused._programs.values()]
    arrays = [weakref.ref(w), weakref.ref(x)]
    left = [weakref.ref(y) for y in (fused, plan, *programs)]
    del fused, plan, programs, w, x
    gc.collect()
    assert [ref() for ref in (*left, *arrays)] == [None] * len((*left, *arrays))


def test_a_trace_keeps_no_arguments_alive():
    """Neither the arrays that it was traced with, nor those of the last call."""
    note = nf.callback(lambda x: None, [], [])
    host = nf.custom_vjp(lambda x: nf.Variable(np.sort(nf.to_numpy(x))))

    def noted(w, x):
        note(x)
        return _called_step(w, x) + host(x[0])

    fused, refs = nf.fuse(noted), []
    for _ in range(5):
        w, x = np.ones((5, 3)), np.ones((7, 5))
        fused(w, x)
        refs += [weakref.ref(w), weakref.ref(x)]
    del w, x
    gc.collect()
    assert [ref() for ref in refs] == [None] * len(refs)


def test_results_are_let_go_without_the_collector():
    """No cycle keeps what a call allocates: device memory is given back at once."""
    fused = nf.fuse(lambda x: np.sort(x * 2) + x)
    x = np.ones(64)
    for _ in range(4):
        fused(x)
    gc.collect()
    gc.disable()
    try:
        ref = weakref.ref(fused(x))
        assert ref() is None
        first = nf.fuse(lambda x: np.cumsum(x * 2) + x)
        ref = weakref.ref(first(x))
        assert ref() is None
    finally:
        gc.enable()
