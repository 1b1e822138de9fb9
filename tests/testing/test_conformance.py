"""The suite itself: what it covers, and that it sees what is wrong."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops, testing
from nbfused.arrays import describe
from nbfused.op import Case, elementwise, op
from nbfused.registry.operations import OPS
from nbfused.testing.sampling import DTYPES, LAYOUTS, draw, lay_out, send
from tests.plugin import nbfused_interpreter
from tests.plugin.nbfused_interpreter import InterpreterBackend

# Lists of arrays, whose checks are those of a private op of two; random; in place;
# without a value.
ELSEWHERE = {"concatenate", "stack", "contract", "dropout", "adam_step", "sgd_step",
             "clip_by_global_norm",             "fill", "empty_like"}


def test_every_op_is_checked():
    checked = {check.op for check in testing.checks()}
    public = {name for name, made in vars(ops).items() if callable(made)
              and made.__module__.startswith("nbfused.ops") and name[0] != "_"}
    assert public - checked - ELSEWHERE == set()
    assert {"_concatenate_two", "_contract_multi"} <= checked


def test_a_new_op_is_checked_by_existing(monkeypatch):
    monkeypatch.setitem(OPS, "twice", None)  # put back after the test

    @op(lambda x: 2.0 * x, Case())
    @elementwise
    def twice(x):
        return x + x

    kinds = {check.kind for check in testing.checks(["twice"])}
    assert kinds == {"value", "special", "gradient", "low-gradient"}
    assert testing.run(ops=["twice"]) == []


def test_names_are_unique_and_say_what_is_checked():
    names = [str(check) for check in testing.checks()]
    assert len(set(names)) == len(names)
    assert "softmax-value-0-float32-strided" in names


def test_thorough_checks_more():
    few, many = (set(testing.checks(["swish"], thorough=t)) for t in (False, True))
    assert few < many


@pytest.mark.parametrize("name", ["swish", "sum", "softmax", "linear", "take"])
def test_dtypes_and_layouts(name):
    found = {(check.dtype, check.layout) for check in testing.checks([name])
             if check.kind == "value"}
    dtypes = {dtype for dtype, _ in found}
    assert set(DTYPES["f"]) <= dtypes
    assert {"contiguous", "reversed", "strided", "fortran"} <= {
        layout for _, layout in found}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [
    (), (7,), (5, 7), (2, 3, 4), (0,), (3, 0, 2), (1, 1)], ids=str)
def test_arrays_are_sent_as_they_lie_in_memory(layout, shape, device):
    rng = np.random.default_rng(0)
    x = lay_out(draw(rng, shape, np.dtype("float32"), (-1.0, 1.0)), layout)
    sent = send(x, device)
    assert sent is not x
    np.testing.assert_array_equal(nf.to_numpy(sent), x)
    if x.size > 1:
        assert describe(sent).strides == describe(x).strides


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_have_other_strides(layout):
    x = np.arange(35.0).reshape(5, 7)
    expected = {"contiguous": (7, 1), "fortran": (1, 5), "reversed": (-7, -1),
                "strided": (28, 2), "constant": (0, 1)}
    assert describe(lay_out(x, layout)).strides == expected[layout]


def failures(monkeypatch, name, make, only):
    """What the suite finds where a function of the interpreter is replaced."""
    monkeypatch.setattr(nbfused_interpreter, name,
                        make(getattr(nbfused_interpreter, name)))
    with nf.use_backend(InterpreterBackend()):
        return testing.run(ops=only)


def test_maps_off_by_one_part_in_a_thousand_fail(monkeypatch):
    def wrong(run_map):
        def run(typed, call, inputs, outputs, ranks):
            run_map(typed, call, inputs, outputs, ranks)
            for out in outputs:
                if out.dtype.kind == "f":
                    out *= out.dtype.type(1.001)
        return run

    found = failures(monkeypatch, "run_map", wrong,
                     ["swish", "add", "matmul", "linear"])
    values = {line.partition("-")[0] for line in found if "-value-" in line}
    assert values == {"swish", "add"}
    assert any("swish-value-0-float32" in line for line in found)
    assert any("swish-gradient-0-float64" in line for line in found)


def test_reductions_without_their_last_element_fail(monkeypatch):
    def wrong(combined):
        def run(stage, state, axes, shape):
            short = tuple(n - (a == axes[-1] and n > 1) for a, n in enumerate(shape))
            cut = tuple(slice(0, n) for n in short)
            parts = [np.broadcast_to(s, shape)[cut] for s in state]
            return combined(stage, parts, axes, short)
        return run

    names = ["sum", "max", "argmin", "var", "softmax", "layer_norm", "cross_entropy"]
    found = failures(monkeypatch, "combined", wrong, [*names, "swish"])
    assert {line.partition("-")[0] for line in found} == set(names)


def test_strides_that_are_ignored_fail(monkeypatch):
    def wrong(view):
        def run(pointer, shape, strides, dtype):
            dense = tuple(int(np.prod(shape[k + 1:])) for k in range(len(shape)))
            # Only where that stays inside the array.
            usable = len(dense) == len(strides) and min(strides, default=0) > 0
            return view(pointer, shape, dense if usable else strides, dtype)
        return run

    found = failures(monkeypatch, "view", wrong, ["swish", "add", "softmax"])
    layouts = {line.split("-")[4].partition(":")[0] for line in found
               if "-value-" in line}
    assert layouts >= {"strided"}
    assert "contiguous" not in {line.split("-")[4].partition(":")[0] for line in found
                                if "swish-value-0-float32" in line}


def test_a_wrong_dtype_fails(monkeypatch):
    monkeypatch.setitem(OPS, "wide", None)

    @op(np.negative, Case())
    @elementwise
    def wide(x):
        return -x * np.float64(1.0)

    found = testing.run(ops=["wide"])
    assert any("wide-value-0-float32" in line and "dtype float64" in line
               for line in found)


def test_a_wrong_gradient_fails(monkeypatch):
    """The value is right, and the derivative half of what it should be."""
    monkeypatch.setitem(OPS, "cut", None)

    @op(np.square, Case(domains=((0.5, 2.0),)))
    @elementwise
    def cut(x):
        return x * nf.detach(x)

    found = testing.run(ops=["cut"])
    assert [line.split("-")[1] for line in found] == ["gradient"]
    assert "finite differences" in found[0]
