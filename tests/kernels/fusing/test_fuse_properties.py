"""Random functions: fused and unfused agree in dtype, shape, value and gradient."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nbfused as nf
from nbfused.errors import NbFusedError

pytestmark = pytest.mark.interpreted

DTYPES = ("?", "i1", "i4", "i8", "u1", "u2", "f2", "f4", "f8", "c8", "c16")
SHAPES = ((), (3,), (1,), (2, 3), (2, 1), (1, 3), (4, 2, 3), (4, 1, 1))
NUMBERS = (2, 3, -1, True, 0.5, -1.25, np.float32(0.75), np.float64(1.5), np.int8(3))

#: Functions with the kinds of dtypes they take; the texts are Python.
UNARY = {"-{0}": "ifc", "np.square({0})": "iufc", "np.sin({0})": "f",
         "np.tanh({0})": "f", "np.exp(-np.abs({0}))": "f", "abs({0})": "iuf",
         "np.sqrt(np.abs({0}))": "f", "{0}.astype('f4')": "biuf",
         "{0}.astype('f8')": "biuf", "np.floor({0})": "f", "{0} > 1": "biuf",
         "{0} * 2": "biufc", "{0} + 0.5": "biufc", "1 - {0}": "ifc", "{0} ** 2": "iuf",
         "np.negative({0})": "ifc", "np.maximum({0}, 0)": "iuf", "{0}.T": "biufc",
         "{0}[None]": "biufc", "{0}.reshape(-1)": "biufc", "~({0} != 0)": "biuf"}
BINARY = ("{0} + {1}", "{0} * {1}", "np.where({0} != {1}, {0}, {1})")
REAL = ("np.maximum({0}, {1})", "np.minimum({0}, {1})", "{0} <= {1}",
        "np.where({0} > {1}, {0}, n)")
REDUCE = ("np.sum({0}, axis={1})", "{0}.sum(axis={1}, keepdims=True)",
          "np.mean({0}, axis={1}, keepdims=True)", "np.max({0}, axis={1})",
          "{0}.min(axis={1}, keepdims=True)")
TOLERANCE = {"float16": 8e-3, "float32": 2e-5, "complex64": 2e-5}


class Program:
    """A function as text, and the arguments that it is called with."""

    def __init__(self, draw, dtypes, gradient):
        self.draw, self.gradient = draw, gradient
        rng = np.random.default_rng(draw(st.integers(0, 2**16)))
        self.arguments = [self.array(rng, draw(st.sampled_from(dtypes)))
                          for _ in range(draw(st.integers(1, 3)))]
        self.names = [f"x{k}" for k in range(len(self.arguments))]
        self.params = list(self.names)
        self.known = dict(zip(self.names, self.arguments, strict=True))
        #: Of each value that was computed, the coarsest dtype that it went through.
        self.rounded = {}
        number = draw(st.sampled_from(NUMBERS))
        self.arguments.append(number)
        self.params.append("n")
        self.lines = []
        for _ in range(draw(st.integers(1, 9))):
            self.grow()
        count = draw(st.integers(1, min(3, len(self.names))))
        self.results = self.names[-count:]

    def array(self, rng, dtype):
        shape = self.draw(st.sampled_from(SHAPES))
        values = rng.integers(0, 4, shape) if np.dtype(dtype).kind in "bu" else \
            rng.integers(-8, 9, shape) / 4
        if np.dtype(dtype).kind == "c":
            values = values + 1j * rng.integers(-3, 4, shape)
        return np.asarray(values).astype(dtype)

    def grow(self):
        """One more line, if NumPy can run it."""
        # Mostly from what was computed last, so that steps depend on one another.
        a = self.draw(st.sampled_from((*self.names, *self.names[-2:] * 3)))
        b = self.draw(st.sampled_from(self.names))
        kind = self.known[a].dtype.kind
        real = "c" not in (kind, self.known[b].dtype.kind)
        choices = [t.format(a) for t, kinds in UNARY.items() if kind in kinds]
        choices += [t.format(a, b) for t in (*BINARY, *(REAL if real else ()))]
        if kind == "u" and self.arguments[-1] == -1:  # NumPy's where gives 255
            choices = [t for t in choices if not t.endswith(", n)")]
        choices += [f"{a} * n", f"{a} + np.sqrt(n * n)", f"n ** 2 - {a}"] \
            if kind != "b" else [f"{a} | {a}", f"{a} * n"]
        if self.known[a].ndim and "b" not in (kind, self.known[b].dtype.kind):
            choices += [f"{a} @ {b}.T", f"{a} @ {b}.T + 1"]
        if self.known[a].ndim and kind in "fiu":
            axis = self.draw(st.integers(-self.known[a].ndim, self.known[a].ndim - 1))
            choices += [t.format(a, axis) for t in REDUCE] * 3
        text = self.draw(st.sampled_from(choices))
        name = f"t{len(self.lines)}"
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("error", np.exceptions.ComplexWarning)
            try:
                value = np.asarray(eval(text, {"np": np, "n": self.arguments[-1],
                                               **self.known}))
            except (ValueError, TypeError, OverflowError):
                return
        if not _tame(value):
            return
        self.known[name] = value
        self.rounded[name] = max(
            value.dtype.name, *(self.rounded.get(x, "") for x in (a, b) if x in text),
            key=lambda dtype: TOLERANCE.get(dtype, 0.0))
        self.names.append(name)
        self.lines.append(f"    {name} = {text}")

    @property
    def text(self):
        body = "\n".join(self.lines)
        head = f"def function({', '.join(self.params)}):"
        return f"{head}\n{body}\n    return {', '.join(self.results)},"

    def function(self):
        scope = {"np": np}
        exec(self.text, scope)
        return scope["function"]


def _tame(value):
    """Whether rounding cannot blow up: finite and not large."""
    return value.size > 0 and np.isfinite(value).all() and np.abs(
        value.astype("c16")).max() < 1e3


@st.composite
def programs(draw, dtypes=DTYPES, gradient=False):
    return Program(draw, dtypes, gradient)


def check(found, expected, text, dtype=None):
    """Compare with what is expected, within the rounding of `dtype`."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape), text
    tolerance = TOLERANCE.get(dtype or expected.dtype.name, 1e-12)
    if expected.dtype.kind in "biu":
        np.testing.assert_array_equal(found, expected, text)
    else:
        scale = max(1.0, float(np.abs(expected).max(initial=0)))
        np.testing.assert_allclose(found, expected, rtol=tolerance * 4,
                                   atol=tolerance * scale * 4, err_msg=text)


SETTINGS = settings(max_examples=20, deadline=None,
                    suppress_health_check=list(HealthCheck))


@pytest.mark.filterwarnings("ignore")
@SETTINGS
@given(programs())
def test_fused_is_what_numpy_computes(program):
    function = program.function()
    with np.errstate(all="ignore"):
        expected = function(*program.arguments)
    try:
        found = nf.fuse(function)(*program.arguments)
    except Exception as error:
        raise AssertionError(program.text) from error
    for f, e, name in zip(found, expected, program.results, strict=True):
        check(f, e, program.text, program.rounded.get(name))


@pytest.mark.filterwarnings("ignore")
@settings(SETTINGS, max_examples=8)
@given(programs(dtypes=("f8",), gradient=True))
def test_fused_has_the_gradient_of_unfused(program):
    function = program.function()

    def gradients(call):
        variables = [nf.Variable(x, requires_grad=True)
                     for x in program.arguments[:-1]]
        results = call(*variables, program.arguments[-1])
        total = sum(((r * r).sum() for r in results if r.dtype == np.float64), 0.0)
        if isinstance(total, nf.Variable) and total.requires_grad:
            total.backward()
        # A derivative that is zero may be known to be, and not be there.
        return [np.zeros(v.shape) if v.grad is None else v.grad for v in variables]

    try:
        expected = gradients(function)
    except (NbFusedError, TypeError):
        return
    try:
        found = gradients(nf.fuse(function))
    except Exception as error:
        raise AssertionError(program.text) from error
    # Unfused, the cotangent of what has been cast is rounded too.
    dtype = "float32" if "astype('f4')" in program.text else None
    for f, e in zip(found, expected, strict=True):
        check(f, e, program.text, dtype)
