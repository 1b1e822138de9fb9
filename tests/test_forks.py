"""A child of a fork works, whatever another thread was doing for the first time."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from nbfused.forks import cached_property

#: Forks while another thread imports a module, or parses its first op.
PROGRAM = """
import ast, os, signal, sys, threading, time
import numpy as np
import nbfused as nf
inside, parse = threading.Event(), ast.parse

def slowly(name):
    if name == sys.argv[1] and not inside.is_set():
        inside.set()
        time.sleep(0.5)

class Finder:
    def find_spec(self, name, path=None, target=None):
        slowly(name)

def parsed(*args, **kwargs):
    slowly("ast.parse")
    return parse(*args, **kwargs)

sys.meta_path.insert(0, Finder())
ast.parse = parsed
thread = threading.Thread(target=lambda: nf.ops.exp(np.zeros(3)))
thread.start()
inside.wait()
child = os.fork()
if not child:
    signal.alarm(30)
    os._exit(int(nf.ops.exp(np.zeros(3)).sum()))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
thread.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("busy", ["nbfused.ops", "nbfused.cpu", "nbfused.cpu.map",
                                  "llvmlite", "ast.parse"])
def test_a_child_does_not_wait_for_another_threads_first_call(busy):
    environment = {k: v for k, v in os.environ.items() if k != "NBFUSED_BACKEND"}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM, busy],
                          check=True, capture_output=True, text=True, timeout=120,
                          env=environment)
    assert done.stdout.strip() == "3"


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
