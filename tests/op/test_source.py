"""Text of functions and derivatives, pasted back."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from itertools import count

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError
from nbfused.op.source import source
from tests.refusal import refused

_numbers = count()


@nf.func
def inner(x, y):
    return x * nf.sigmoid(x) if x > y else y * y


@nf.elementwise
def outer(x, y):
    total = inner(x, y)
    for k in range(3):
        total = total * 0.5 + inner(y, x) * k
    return total + nf.gelu_tanh(x)


@nf.elementwise
def pair(x, y):
    return x * y, nf.exp(x) - y


def module(text, path):
    """A module whose file holds `text`."""
    name = f"pasted_{next(_numbers)}"
    file = path / f"{name}.py"
    file.write_text(f"import numpy as np\nimport nbfused as nf\n\n\n{text}")
    spec = importlib.util.spec_from_file_location(name, file)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


X, Y = np.linspace(-2, 2, 9), np.linspace(1.5, -1.5, 9)


@pytest.mark.parametrize("f", [outer, pair], ids=lambda f: f.__name__)
def test_pasted_back(f, tmp_path, device):
    again = nf.elementwise(getattr(module(f.source(), tmp_path), f.__name__))
    x, y = (nf.array(v, device=device) for v in (X, Y))
    for a, b in zip(f(x, y), again(x, y), strict=True):
        np.testing.assert_array_equal(nf.to_numpy(a), nf.to_numpy(b))


@pytest.mark.parametrize("f", [outer, pair], ids=lambda f: f.__name__)
def test_pasted_as_rules(f, tmp_path, device):
    again = nf.elementwise(getattr(module(f.source(), tmp_path), f.__name__))
    for kind, define in (("vjp", again.defvjp), ("jvp", again.defjvp)):
        define(getattr(module(f.source(kind), tmp_path), f"{f.__name__}_{kind}"))

    def gradients(function):
        x, y = (nf.Variable(nf.array(v, device=device), requires_grad=True)
                for v in (X, Y))
        results = function(x, y)
        for r in results if isinstance(results, tuple) else (results,):
            (r * r).sum().backward(retain_graph=True)
        return [nf.to_numpy(v.grad) for v in (x, y)]

    for a, b in zip(gradients(f), gradients(again), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)


def test_what_it_looks_like():
    assert pair.source() == """\
def pair(x, y):
    return x * y, nf.exp(x) - y
"""
    assert pair.source("vjp").startswith("def pair_vjp(x, y, g0_1, g1_1):\n")
    assert "math.exp(x)" in pair.source("numba")


def test_kinds():
    with refused(KernelTypeError, "'primal', 'vjp', 'jvp'", "'metal'"):
        pair.source("metal")


def test_hip_is_printed_without_a_compiler_and_shows_the_lines_of_python():
    code = ("import sys, shutil; shutil.which = lambda *a, **k: None\n"
            "import nbfused as nf\n"
            "print(nf.ops.swish.source('hip'), 'numba' in sys.modules)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          check=False, env={**os.environ, "NBFUSED_ROCM_EMULATE": "0"})
    assert "NBF_KERNEL(" in done.stdout, done.stderr
    assert re.search(r"// \d+: return x \* .*sigmoid\(beta \* x\)\n", done.stdout)
    assert done.stdout.split()[-1] == "False"
    for dtype, kind in (("float64", "double"), ("int32", "int32_t"),
                        ("float16", "uint16_t")):
        assert f"pointer<const {kind}>" in source(pair.function, "hip", dtype)


def test_ptx():
    pytest.importorskip("numba.cuda")
    text = pair.source("ptx")
    assert ".visible .entry" in text
    assert "f32" in text


def test_ptx_without_a_compiler():
    code = ("import sys; sys.modules['numba_cuda'] = None; sys.modules['numba'] = None;"
            "import nbfused as nf\n"
            "try: nf.ops.add.source('ptx')\n"
            "except nf.errors.CompileError as e: print(e)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          check=False)
    assert "numba-cuda is not installed" in done.stdout, done.stderr
