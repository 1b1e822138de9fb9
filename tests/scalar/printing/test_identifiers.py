"""Names from outside never become part of a generated program."""

from __future__ import annotations

import builtins
import keyword

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import nbfused as nf
from nbfused.errors import NbFusedError
from nbfused.scalar.ir.nodes import Block, Function
from nbfused.scalar.printing.identifiers import identifier, is_identifier
from tests.variants import sampled

HOSTILE = {
    "newline": "k\nimport builtins; builtins.EXECUTED = True\n#", "return": "k\rx",
    "quotes": "k'\"\"\"'''", "comment": "k*/ int evil; /*", "backslash": "k\\",
    "slashes": "k // ", "NUL": "k\0x", "empty": "", "long": "k" * 10_000,
    "spaces": "my kernel-2", "digit": "2k", "unicode": "größe_αβ", "line": "k\u2028x",
    "ligature": "ﬁ", "keyword": "class", "braces": "k{0}%s{{", "dots": "a.b",
    "semicolon": "k; import os", "parentheses": "f(x): pass\ndef g", "symbol": "π²",
    "surrogate": "k\udc80", "hash": "# k", "trigraph": "k??/",
}
X = np.arange(4.0, dtype="f4")



@given(st.text(st.characters(), max_size=300))
@example("ⓐ")
@example("℘·")
def test_everything_becomes_an_identifier(name):
    found = identifier(name)
    assert found.isidentifier()
    assert not keyword.iskeyword(found)
    assert len(found) <= 201
    assert identifier(found) == found
    assert (found == name) == is_identifier(name)


def named(function, name):
    function.__name__ = function.__qualname__ = name
    return function


def _scaled(x):
    return x * 2 + 1


def _fused(name):
    fused = nf.fuse(named(lambda x: (x * 2 + 1, x.sum()), name))
    return fused(X)[0], fused.source()


def _key_of_a_dictionary(name):
    fused = nf.fuse(lambda p: p[name] * p["b"] + p[name].sum() * 0)
    return fused({name: X, "b": 2.0}) + 1, fused.source()


def _nested_keys(name):
    fused = nf.fuse(lambda p, q: p["a"][name] * 2 + q[0][name])
    return fused({"a": {name: X}}, [{name: np.ones(4, "f4")}]), fused.source("vjp")


def _elementwise(name):
    op = nf.elementwise(named(lambda x: x * 2 + 1, name))
    return op(X), op.source() + op.source("numba") + op.source("hip")


def _traced(name):
    scope = {}
    exec("def f(x): return x * 2 + 1", scope)  # without a source: it is traced
    op = nf.elementwise(named(scope["f"], name))
    return op(X), op.source() + op.source("vjp") + op.source("hip")


def _file(name):
    scope = {}
    exec(compile("def f(x):\n    return x * 2 + 1", name.replace("\0", "") or "f",
                 "exec"), scope)
    op = nf.elementwise(scope["f"])
    return op(X), op.source() + op.source("hip")


def _called(name):
    scope = {}
    exec("def inner(x): return x * 2", scope)
    inner = nf.func(named(scope["inner"], name))
    op = nf.elementwise(lambda x: inner(x) + 1)
    return op(X), op.source() + op.source("hip")


def _rules(name):
    @nf.elementwise
    def op(x):
        return x * 2 + 1

    op.defvjp(named(lambda x, g: g * 2, name))
    v = nf.Variable(X, requires_grad=True)
    y = op(v)
    y.sum().backward()
    return y.data, op.source("vjp")


def _reduction(name):
    op = nf.reduction(combine=named(lambda a, b: a + b, name), identity=0)(
        named(lambda x: x * 2, name))
    return op(X[:, None], axis=1) + 1, op.source()


def _post(name):
    op = nf.reduction(combine="sum", post=named(lambda s: s + 1, name))(
        lambda x: x * 2)
    return op(X[:, None], axis=1), op.source()


def _row(name):
    op = nf.row(named(lambda x: x * 2 + 1, name))
    return op(X[:, None])[:, 0], ""


def _epilogue(name):
    done = nf.ops.matmul(X[:, None], np.full((1, 1), 2, "f4"), epilogue=nf.elementwise(
        named(lambda x: x + 1, name)))
    return done[:, 0], ""


def _kernel(name):
    @nf.rawkernel
    def kernel(p, y):
        y[0] = p.a + 1

    out = np.zeros(1, "f4")
    kernel[1, 1]({"a": 0.0, name: 1.0}, out)
    return X * 2 + out, ""


def _elementwise_kernel(name):
    kernel = nf.ElementwiseKernel("float32 x", "float32 y", "y = x * 2 + 1", name)
    return kernel(X), kernel.source() if hasattr(kernel, "source") else ""


def _reduction_kernel(name):
    kernel = nf.ReductionKernel("float32 x", "float32 y", "x * 2", "a + b", "y = a + 1",
                                "0", name)
    return kernel(X[:, None], axis=1), ""


def _parameter(name):
    kernel = nf.ElementwiseKernel(f"float32 {name}", "float32 y", f"y = {name} * 2 + 1")
    return kernel(X), ""


PLACES = {f.__name__.strip("_"): f for f in (
    _fused, _key_of_a_dictionary, _nested_keys, _elementwise, _traced, _file, _called,
    _rules, _reduction, _post, _row, _epilogue, _kernel, _elementwise_kernel,
    _reduction_kernel, _parameter)}
#: Those that take certain names only, and say so.
CHECKED = {"parameter": lambda n: is_identifier(n[:9]) and n.isascii(),
           "elementwise_kernel": str.isidentifier, "reduction_kernel": str.isidentifier}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("place", sampled(
    PLACES, "traced", "rules", "row", "kernel", "elementwise_kernel",
    "parameter"))
def test_names_from_outside(place, monkeypatch):
    for kind, name in HOSTILE.items():
        if place in CHECKED and not CHECKED[place](name):
            with pytest.raises(NbFusedError):
                PLACES[place](name)
            continue
        found, text = PLACES[place](name)
        np.testing.assert_array_equal(np.asarray(found), X * 2 + 1, err_msg=kind)
        assert not hasattr(builtins, "EXECUTED"), kind
        assert "import builtins" not in text, kind
        assert "int evil" not in text, kind
        if "const float" not in text:  # of C++
            compile(text, "text", "exec")


def test_parameters_are_checked_where_all_functions_are_made():
    with pytest.raises(NbFusedError, match="is no identifier"):
        Function("f", ("x\ny",), Block((), ("x\ny",)))
    assert Function("my kernel", ("x",), Block((), ("x",))).name == "my_kernel"
