"""Backward passes of several threads that meet in one leaf, or in one graph."""

from __future__ import annotations

import os
import signal
import sys
import threading

import numpy as np
import pytest

import nbfused as nf
from nbfused.autograd import walk


@pytest.fixture(autouse=True)
def _often_interrupted():
    """Threads take turns after each few instructions."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def in_threads(count, repeat, work):
    errors = []

    def run():
        try:
            for _ in range(repeat):
                work()
        except Exception as error:  # a thread's own would be lost
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("count", [4, 16])
def test_a_shared_leaf_loses_no_gradient(count, create_graph):
    leaf = nf.Variable(np.zeros(5), requires_grad=True)
    in_threads(count, 200, lambda: (leaf * 3.0).sum().backward(
        create_graph=create_graph))
    found = nf.to_numpy(leaf.grad)
    np.testing.assert_array_equal(found, np.full(5, 3.0 * 200 * count))


class Square(nf.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return ctx.saved_tensors[0] * g + x * g


@nf.custom_vjp
def doubled(x):
    return x * 2.0


doubled.defvjp(lambda x: (x * 2.0, x), lambda x, g: (g * 2.0,))


@pytest.mark.parametrize("function", [
    nf.ops.square, Square.apply, doubled, nf.checkpoint(lambda x: nf.ops.exp(x) * x)])
def test_threads_walk_back_over_one_graph(function):
    leaf = nf.Variable(np.linspace(0.5, 1.0, 5), requires_grad=True)
    y = function(leaf).sum()
    y.backward(retain_graph=True)
    once, leaf.grad = leaf.grad, None
    in_threads(8, 50, lambda: y.backward(retain_graph=True))
    np.testing.assert_allclose(leaf.grad, 400 * once, rtol=1e-12)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
@pytest.mark.filterwarnings("ignore:os.fork")  # JAX's, where other tests imported it
def test_a_child_does_not_wait_for_a_thread_of_its_parent():
    leaf = nf.Variable(np.ones(3), requires_grad=True)
    (leaf * 2.0).sum().backward()
    held, done = threading.Event(), threading.Event()

    def hold():
        with walk._REPLACING:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(30)
    child = os.fork()
    if not child:
        signal.alarm(30)
        (leaf * 3.0).sum().backward()
        os._exit(int(leaf.grad[0]))
    done.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
