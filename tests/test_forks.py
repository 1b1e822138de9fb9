"""A child of a fork works, whatever another thread was doing for the first time."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import nbfused
from nbfused.support.forks import cached_property
from tests.variants import sampled, sampled_together

#: Forks while another thread looks for a module, has begun to import it, or parses its
#: first op.
PROGRAM = """
import ast, importlib.util, os, signal, sys, threading, time
import nbfused as nf
inside, parse = threading.Event(), ast.parse

def slowly(name):
    if name == sys.argv[1] and not inside.is_set():
        inside.set()
        time.sleep(0.5)

class Finder:
    def find_spec(self, name, path=None, target=None):
        slowly(name)
        if name + " begun" == sys.argv[1]:
            sys.meta_path.remove(self)
            spec = importlib.util.find_spec(name)
            run = spec.loader.exec_module
            spec.loader.exec_module = lambda x: (slowly(name + " begun"), run(x))
            return spec

def parsed(*args, **kwargs):
    slowly("ast.parse")
    return parse(*args, **kwargs)

sys.meta_path.insert(0, Finder())
ast.parse = parsed
def call():
    x = nf.array([0.0]*3)
    return nf.ops.exp(x)

thread = threading.Thread(target=call)
thread.start()
inside.wait()
child = os.fork()
if not child:
    signal.alarm(30)
    os._exit(int(call().sum()))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
thread.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("busy", sampled(
    ["numpy", "nbfused.arrays.detect", "nbfused.ops", "nbfused.cpu", "nbfused.cpu.map",
     "llvmlite", "ast.parse"], "nbfused.ops", "nbfused.cpu.map", "ast.parse"))
def test_a_child_does_not_wait_for_another_threads_first_call(busy):
    environment = {k: v for k, v in os.environ.items() if k != "NBFUSED_BACKEND"}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM, busy],
                          check=True, capture_output=True, text=True, timeout=120,
                          env=environment)
    assert done.stdout.strip() == "3"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("busy", sampled(
    ["logging", "logging begun", "nbfused.cpu.map", "llvmlite", "hashlib"], "logging",
    "logging begun", "llvmlite"))
def test_a_fork_that_waits_for_a_thread_that_registers_hooks_is_silent(busy):
    """Locks that were not taken were given back: three tracebacks."""
    environment = {k: v for k, v in os.environ.items() if k != "NBFUSED_BACKEND"}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM, busy],
                          check=True, capture_output=True, text=True, timeout=120,
                          env=environment)
    assert (done.stdout.strip(), done.stderr) == ("3", "")


#: Compiles all the time in one thread, and forks in another.
MANY = """
import os, signal, sys, threading
import numpy as np
import nbfused as nf
stop = threading.Event()

def build():
    number = 0
    while not stop.is_set():
        number += 1
        constant = number + 0.5
        assert nf.elementwise(lambda x: x*constant)(np.ones(3))[0] == constant

thread = threading.Thread(target=build)
thread.start()
x, failed = np.linspace(0.0, 1.0, 5), 0
for _ in range(12):
    child = os.fork()
    if not child:
        signal.alarm(60)
        a = nf.elementwise(lambda x: x - 0.25)(x)
        os._exit(int(not np.array_equal(a, x - 0.25)))
    failed += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0
stop.set()
thread.join()
print(failed)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_forks_while_another_thread_compiles():
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", MANY], check=True,
                          capture_output=True, text=True, timeout=240)
    assert (done.stdout.strip(), done.stderr) == ("0", "")


#: Another thread holds all locks, and is in all blocks, at the moment of a fork.
HELD = """
import os, signal, sys, threading
from contextlib import ExitStack
import numpy as np
import nbfused as nf
from nbfused.support import forks
inside, done = threading.Event(), threading.Event()
x, usual = np.ones(3), sys.getrecursionlimit()
f = nf.fuse(lambda x: nf.ops.exp(x) + np.float64(2))
f(x), nf.grad(lambda x: nf.ops.exp(x).sum())(x)

def hold():
    with ExitStack() as held:
        for each in [*forks._BLOCKS, *forks._FREED]:
            held.enter_context(each)
        inside.set()
        done.wait()

thread = threading.Thread(target=hold)
thread.start()
inside.wait()
locks = len(forks._FREED)
child = os.fork()
if not child:
    signal.alarm(60)
    assert sys.getrecursionlimit() == usual and type(np).__name__ == "module"
    f(x), nf.grad(lambda x: nf.ops.exp(x*x).sum())(x)
    nf.elementwise(lambda x: x - 0.25)(x)
    with ExitStack() as held:
        for each in [*forks._BLOCKS, *forks._FREED]:
            held.enter_context(each)
        assert sys.getrecursionlimit() > usual
    assert sys.getrecursionlimit() == usual
    os._exit(0)
done.set()
thread.join()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), locks > 5)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_locks_and_blocks_of_other_threads_are_left_to_the_parent():
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", HELD], timeout=120,
                          capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("0 True", "")


#: Modules that see to their locks by themselves.  CUDA's are not needed in a child,
#: which cannot use it.
OWN = {"support/forks.py", "support/processes.py", "rocm/build/compile.py",
       "cpu/runtime/pool.py", "autograd/versions.py"}


def test_no_lock_stays_held_in_a_child():
    """`functools.cached_property` has one, too, before Python 3.12."""
    root = Path(nbfused.__file__).parent
    bare = re.compile(r"(?<!free_in_child\()threading\.R?Lock\(\)|"
                      r"from functools import .*\bcached_property\b")
    found = {name for path in root.rglob("*.py") if bare.search(path.read_text())
             and not (name := path.relative_to(root).as_posix()).startswith("cuda/")}
    assert found == OWN


#: One thread imports a module by its name, another asks for what imports it, too.
BOTH = """
import importlib, sys, threading, time
from contextlib import suppress
import nbfused as nf
inside, asked = threading.Event(), threading.Event()
name, pause, use = sys.argv[1:]

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == pause and not inside.is_set():
            inside.set()
            asked.wait(10)
            time.sleep(0.3)

sys.meta_path.insert(0, Finder())
first = threading.Thread(target=importlib.import_module, args=[name], daemon=True)
first.start()
inside.wait(10)

def ask():
    asked.set()
    with suppress(nf.registry.DeviceError):  # no compiler here
        eval(use)

second = threading.Thread(target=ask, daemon=True)
second.start()
for thread in (first, second):
    thread.join(20)
print(first.is_alive(), second.is_alive())
"""


@pytest.mark.parametrize(("module", "pause", "use"), sampled_together(
    [*((name, "autograd.tape", "nf.ops.exp") for name in (
        "ops", "autograd", "op", "kernels.threads.rawkernel", "testing")),
     ("rocm", "rocm.build.toolchain", "nf.array([1.0], device='rocm')")],
    *((name, "autograd.tape", "nf.ops.exp") for name in ("ops", "op", "autograd"))))
def test_two_threads_import_the_same_in_two_ways(module, pause, use):
    done = subprocess.run([sys.executable, "-c", BOTH, f"nbfused.{module}",
                           f"nbfused.{pause}", use], check=True, capture_output=True,
                          text=True, timeout=120,
                          env={**os.environ, "NBFUSED_ROCM_EMULATE": "1"})
    assert done.stdout.strip() == "False False"


def test_a_cached_property_is_computed_once():
    class Owner:
        """With one property."""

        count = 0

        @cached_property
        def value(self):
            """Counts."""
            self.count += 1
            return self.count

    owner, other = Owner(), Owner()
    assert (owner.value, owner.value, other.value) == (1, 1, 1)
    assert Owner.value.__doc__ == "Counts."


#: `logging` holds its own lock in a fork, and was imported after `LOCK` was made.
LOGS = """
import os, threading, time
from nbfused.config import logger
from nbfused.support.forks import LOCK
log, inside = logger("compile"), threading.Event()

def hold():
    with LOCK:
        inside.set()
        time.sleep(0.3)
        log.debug("takes the lock of logging")

threading.Thread(target=hold).start()
inside.wait()
child = os.fork()
if not child:
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_who_keeps_a_fork_waiting_may_log():
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", LOGS], timeout=60,
                          capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "0", done.stderr
