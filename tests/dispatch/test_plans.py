"""Plans and kernels: shared by calls that differ in nothing they depend on."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from nbfused.dispatch import calls, execute, trace_launches
from nbfused.dispatch.launch_plans import arguments
from nbfused.registry.backends import use_backend
from nbfused.specs import Contract, Map
from tests.dispatch.numpy_backend import (
    ADD,
    MATMUL,
    function,
    numpy_backend,
    reduce_of,
)


@pytest.fixture(autouse=True)
def backend():
    fake = numpy_backend()
    with use_backend(fake):
        yield fake


def test_kernels_are_shared(backend):
    """Shapes, axes and subscripts are not in the kernel; strides only as classes."""
    execute(ADD, (np.zeros((3, 4)), np.zeros((3, 4))))
    execute(ADD, (np.zeros((4, 3)).T, np.zeros((4, 3)).T))
    execute(ADD, (np.zeros(()), np.zeros(())))
    execute(reduce_of(None), (np.zeros((3, 4)),))
    execute(reduce_of((0, 1), True), (np.zeros((5, 6)),))
    execute(Contract("mk,kn->mn", MATMUL), (np.zeros((3, 4)), np.zeros((4, 5))))
    execute(Contract("mk,nk->nm", MATMUL, out_axes=(1, 0)),
            (np.zeros((3, 4)), np.zeros((5, 4)).copy("F")))
    assert len(backend.built) == 3


def test_nothing_to_do_launches_nothing():
    with trace_launches() as launches:
        assert execute(ADD, (np.zeros((0, 3)), np.zeros(3)))[0].shape == (0, 3)
        assert execute(reduce_of((1,)), (np.zeros((0, 3)),))[0].shape == (0,)
        shape = execute(Contract("mk,kn->mn", MATMUL),
                        (np.zeros((0, 3)), np.zeros((3, 4))))[0].shape
        assert shape == (0, 4)
    assert launches == []
    np.testing.assert_array_equal(execute(reduce_of((0,)), (np.zeros((0, 3)),))[0],
                                  np.zeros(3))


def unique(name):
    return Map(function(name, ("x",), ("z", "id", "x")), ("element",))


def prepared(spec):
    """How many calls are prepared."""
    return sum(len(caller.prepared) for caller in arguments(spec).callers.values())


def test_plans_are_bounded(monkeypatch, backend):
    monkeypatch.setattr(calls, "_LIMIT", 4)
    spec = unique("bounded")
    for n in range(10):
        (result,) = execute(spec, (np.ones((n + 2, 3))[:, ::2],))
        np.testing.assert_array_equal(result, np.ones((n + 2, 2)))
    assert prepared(spec) == 4
    assert len(backend.built) == 1


def test_plans_do_not_depend_on_the_array():
    spec = unique("unique")
    for _ in range(5):
        execute(spec, (np.zeros(7),))
    assert prepared(spec) == 1


FORK = """
import os, signal, threading
import numpy as np
import nbfused as nf
from nbfused.cpu import CpuBackend

build, inside, done = CpuBackend.build, threading.Event(), threading.Event()

def slow(*arguments):
    inside.set()
    done.wait()
    return build(*arguments)

CpuBackend.build = slow
thread = threading.Thread(target=nf.ops.exp, args=(np.zeros(3),))
thread.start()
inside.wait()
CpuBackend.build = build
child = os.fork()
if not child:
    signal.alarm(60)
    os._exit(int(nf.ops.exp(np.zeros(3)).sum()))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
done.set()
thread.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_does_not_wait_for_a_kernel_that_another_thread_builds():
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORK], check=True,
                          capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "3"
