"""The scalar language where CuPy's jit has limits: types of locals, missing sources.

Each test is named for the line of the acceptance list that it holds.
"""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError, ScalarSyntaxError


@nf.elementwise
def integer_then_float(x, n):
    total = 0
    if x > 1:
        total = 1.5
    for k in range(n):
        total += k if x > 2 else x
    return total


@nf.elementwise
def first_in_a_loop(x):
    last = 0
    for k in range(3):
        last = x * k if k > 1 else k
    return last


def test_c29_a_local_may_change_its_type(device):
    x = np.array([0.5, 1.5, 2.5], np.float32)
    on_device = nf.array(x, device=device)
    found = nf.to_numpy(integer_then_float(on_device, 3))
    np.testing.assert_array_equal(found, [1.5, 6.0, 4.5])
    assert found.dtype == np.float32
    found = nf.to_numpy(first_in_a_loop(on_device))
    np.testing.assert_array_equal(found, 2 * x)


@nf.elementwise
def bits(x):
    y = x
    if x > 0:
        y = 0.5
    return y & 1


def test_c29_an_error_names_the_line(device):
    with pytest.raises(KernelTypeError, match=r"test_s1_language\.py:") as caught:
        bits(nf.array([1, 2], device=device))
    line = bits.pyfunc.__code__.co_firstlineno + 5
    assert f"test_s1_language.py:{line}: bits: and does not take" in str(caught.value)


WITHOUT_A_FILE = """
import numpy as np
import nbfused as nf
@nf.elementwise
def smooth(x, n):
    total, k = 0.0, 0
    while k < n:
        if x > k:
            total += x * k
        k += 1
    return total

print(smooth(np.array([0.5, 2.5]), 3).tolist())
print(nf.grad(lambda x: smooth(x, 3).sum())(np.array([0.5, 2.5])).tolist())
print(nf.elementwise(lambda x: x if x > 0 else -x)(-2.0))
"""


def run(*args, text=None):
    return subprocess.run([sys.executable, *args], input=text, capture_output=True,
                          text=True, timeout=120, cwd=os.getcwd(), check=False,
                          env={**os.environ, "NBFUSED_BACKEND": "cpu"})


def test_c30_control_flow_on_the_command_line():
    """Its text is an argument of the process."""
    done = run("-c", WITHOUT_A_FILE)
    assert done.stdout.split("\n")[:3] == ["[0.0, 7.5]", "[0.0, 3.0]", "2.0"], \
        done.stderr


TWICE = """
namespace = {}
exec('''
import nbfused as nf
double = nf.elementwise(lambda x: x * 2)
''', namespace)
import nbfused as nf
triple = nf.elementwise(lambda x: x * 3)
print(namespace["double"](1.5), triple(1.5))
"""


def test_c30_other_text_is_not_mistaken_for_it():
    done = run("-c", TWICE)
    assert done.stdout == "3.0 4.5\n", done.stderr


def test_c46_print_is_refused_with_the_way_out(device):
    """Values are stored, and read after `synchronize`."""
    @nf.rawkernel
    def tell(x):
        print(x[0])

    @nf.rawkernel
    def note(x, seen):
        i = nf.grid(1)
        seen[i] = x[i] + 1

    x = nf.array([1.0, 2.0], device=device)
    with pytest.raises(ScalarSyntaxError, match="store what you want to see into an "):
        tell((1,), (2,), (x,))
    seen = nf.zeros(2, device=device)
    note((1,), (2,), (x, seen))
    nf.synchronize()
    np.testing.assert_array_equal(nf.to_numpy(seen), [2, 3])
