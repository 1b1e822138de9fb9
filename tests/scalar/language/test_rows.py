"""A builtin is one row: nothing else names it, and it works everywhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import mpmath
import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import DefinitionError, KernelTypeError
from nbfused.scalar.language.composites import compose
from nbfused.scalar.language.vocabulary import OPS

PACKAGE = Path(nf.__file__).parent
REFERENCES = {"sinpi": mpmath.sinpi, "cospi": mpmath.cospi}


def on_arrays(op):
    return nf.elementwise(lambda v: op(v))


def points(dtype):
    """Fractions of a turn, of many sizes, and beside the zeros."""
    rng = np.random.default_rng(0)
    near = rng.integers(-20, 20, 300)/2 + 10.0**rng.uniform(-7, -1, 300)
    return np.concatenate([rng.uniform(-1, 1, 600), rng.uniform(-1e4, 1e4, 300), near,
                           10.0**rng.uniform(-30, 0, 300)]).astype(dtype)


def ulps(got, exact):
    """The error in units in the last place."""
    size = max(np.spacing(np.abs(got.dtype.type(float(exact)))),
               np.finfo(got.dtype).smallest_subnormal)
    return abs(mpmath.mpf(float(got)) - exact)/mpmath.mpf(float(size))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", REFERENCES)
def test_accuracy(name, dtype):
    op = OPS[name]
    x = points(dtype)
    for run in (op, on_arrays(op)):
        y = run(x)
        assert y.dtype == x.dtype
        with mpmath.workdps(60):
            worst = max(ulps(b, REFERENCES[name](mpmath.mpf(float(a))))
                        for a, b in zip(x, y, strict=True))
        assert worst <= 2


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_special_values(dtype):
    info = np.finfo(dtype)
    x = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1, -1, 0.5, -0.5, 2.5, -3.5,
                  info.max, -info.max, info.smallest_subnormal], dtype)
    tiny = np.dtype(dtype).type(np.pi*float(info.smallest_subnormal))
    sines = np.array([np.nan, np.nan, np.nan, 0.0, -0.0, 0.0, -0.0, 1, -1, 1, 1, 0.0,
                      -0.0, tiny], dtype)
    cosines = np.array([np.nan, np.nan, np.nan, 1, 1, -1, -1, 0.0, 0.0, 0.0, 0.0, 1, 1,
                        1], dtype)
    for op, expected in ((nf.sinpi, sines), (nf.cospi, cosines)):
        y = on_arrays(op)(x)
        np.testing.assert_array_equal(y, expected)
        np.testing.assert_array_equal(np.signbit(y[3:]), np.signbit(expected[3:]))


@pytest.mark.parametrize("name", REFERENCES)
def test_complex_numbers_are_refused(name):
    op = OPS[name]
    with pytest.raises(KernelTypeError, match=f"{name} does not take complex numbers"):
        on_arrays(op)(np.ones(3, np.complex64))


def test_in_fuse_and_in_c_bodies():
    x = points(np.float32)
    expected = nf.sinpi(x)
    np.testing.assert_array_equal(nf.fuse(lambda v: nf.sinpi(v))(x), expected)
    for call in ("sinpi(x)", "sinpif(x)"):
        kernel = nf.ElementwiseKernel("float32 x", "float32 y", f"y = {call}")
        np.testing.assert_array_equal(kernel(x), expected)


def test_gradient_on_arrays():
    x = nf.Variable(np.array([0.25, 1.0, -2.5]), requires_grad=True)
    nf.sinpi(x).sum().backward()
    np.testing.assert_allclose(x.grad, np.pi*np.cos(np.pi*x.data), atol=1e-15)


@pytest.mark.parametrize("name", ["sinpi", "cbrt", "log_sigmoid"])
def test_nothing_but_its_row_names_a_builtin(name):
    """Ops over arrays of the same name are another thing, and so are C headers.

    Functions that are written in the language call what it has.
    """
    named = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py")
             if re.search(rf"(\"|\b)_?{name}\b", path.read_text())}
    named = {path for path in named if not path.startswith(
        ("array_api/", "cpu/mathematics/", "cuda/isa/", "ops/", "scalar/cparse/cuda/",
         "scalar/language/library.py"))}
    assert named <= {"scalar/language/composites.py", "scalar/language/elementary.py"}


CONTRIBUTING = Path(__file__).parents[3] / "CONTRIBUTING.md"

PROGRAM = '''
from nbfused.scalar.language.composites import compose

{row}

import numpy as np
import nbfused as nf

x = np.array([-2.0, 0.5, 3.0])
v = nf.Variable(x, requires_grad=True)
f = nf.elementwise(lambda a: nf.bell(a) + 1.0)
f(v).sum().backward()
np.testing.assert_allclose(v.grad, -2*x*np.exp(-x*x), rtol=1e-14)
for run in (nf.bell, nf.fuse(lambda a: nf.bell(a)),
            nf.ElementwiseKernel("float64 x", "float64 y", "y = bell(x)")):
    np.testing.assert_allclose(run(x), np.exp(-x*x), rtol=1e-14)
assert "bell" in dir(nf)
assert nf.bell.__doc__ == "``exp(-a*a)``."
assert "nf.bell(a)" in f.source()
for kind, text in (("numba", "exp"), ("hip", "nbf::exp"), ("ptx", "ex2.approx")):
    assert text in f.source(kind), kind
print("done")
'''


@pytest.mark.variants
@pytest.mark.skipif(not CONTRIBUTING.exists(), reason="there is no checkout around")
def test_the_row_in_contributing_is_all_it_takes(tmp_path):
    (row,) = re.findall(r"```python\n(compose\(.*?)```", CONTRIBUTING.read_text(), re.S)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(row=row))
    done = subprocess.run([sys.executable, program], capture_output=True, text=True,
                          timeout=120, check=False)
    assert done.stdout.strip() == "done", done.stderr


@pytest.mark.parametrize(("row", "facts", "message"), [
    (("exp", "a", "return a"), {}, "exp: the scalar language has this builtin already"),
    (("q", "x", "return x", "1.0"), {}, "expected 'a', 'a, b' or 'a, b, c'"),
    (("q", "a, b", "return a + b", "1.0", "1.0"), {}, "function of 1 operands, the"),
    (("q", "a", "return a", "1.0", "2.0"), {}, "2 partial derivatives for 1 operands"),
    (("q", "a", "return a"), {"exat": "a"}, "exat: no such fact"),
    (("q", "a", "return a"), {"rule": "exq"}, "rule='exq' is no ufunc of NumPy")])
def test_a_row_that_contradicts_itself_is_refused(row, facts, message):
    known = {**OPS}
    with pytest.raises(DefinitionError, match=re.escape(message)):
        compose(*row, doc="", **facts)
    assert known == OPS
