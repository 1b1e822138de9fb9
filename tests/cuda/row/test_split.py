"""Which skeleton runs a row, and the kernels of rows that many blocks share."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops
from nbfused.cuda.row.split import launcher as split_launcher
from nbfused.cuda.row.split.choice import FEW, RULES, Facts, skeleton_for
from nbfused.cuda.row.split.steps import split_steps
from nbfused.cuda.runtime import launch
from nbfused.op import row, stage
from nbfused.ops.losses import _cross_entropy, _smoothed
from nbfused.ops.normalization import _layer_norm
from nbfused.scalar.typing.types import Weak
from tests.cuda.recorded import assembled, needs_compiler, recording, registers
from tests.variants import sampled

F32, I64 = np.dtype(np.float32), np.dtype(np.int64)
BFLOAT16 = nf.arrays.BFLOAT16


def facts(rows, columns, *, kept=False, apart=False, neighbours=0, sums=False,
          blocks=None, **more):
    return Facts(rows, columns, columns // 2048, kept, apart, neighbours, 4,
                 rows if blocks is None else blocks, 132, sums, **more)


@pytest.mark.parametrize(("which", "skeleton"), [
    (facts(1, 1 << 24), "split"),
    (facts(8, 1 << 21), "split"),
    (facts(int(FEW*132) + 1, 1 << 20), "group"),
    (facts(8, 1 << 21, kept=True), "group"),
    (facts(8, 1 << 21, blocks=64), "group"),
    (facts(8, 60_000), "group"),
    (facts(4096, 4096, neighbours=4096), "split"),
    (facts(200, 200, neighbours=200), "group"),
    (facts(4096, 4096, neighbours=7), "group"),
    (facts(1 << 20, 21, neighbours=1 << 16), "thread"),
    (facts(1 << 20, 21, neighbours=1 << 16, sums=True), "split"),
    (facts(1 << 20, 100, neighbours=1 << 16), "split"),
    (facts(1 << 17, 7, apart=True, dense=True), "group"),
    (facts(1 << 18, 7, apart=True, dense=True), "tile"),
    (facts(1 << 18, 8, apart=True, dense=True, padded=True), "group"),
    (facts(1 << 15, 7, apart=True), "group"),
    (facts(1 << 15, 6, apart=True), "thread"),
    (facts(1 << 15, 7, apart=True, neighbours=1 << 15), "thread"),
    (facts(1 << 15, 4, apart=True, unrolled=True), "map"),
    (facts(1 << 13, 4, apart=True, unrolled=True), "group"),
    (facts(0, 1 << 24), "group"),
    (facts(3, 0, neighbours=20), "group")])
def test_the_skeleton_follows_from_the_rows(which, skeleton):
    assert skeleton_for(which).skeleton == skeleton


def test_every_rule_has_a_reason_of_its_own():
    assert len({rule.reason for rule in RULES}) == len(RULES)


def launches(call):
    """Names and blocks of what a call launches on an H200."""
    found = []
    with recording() as kernels:
        record = launch.Program.launch

        def noted(self, device, stream, blocks, values, *rest):
            found.append((self.kernel.name, blocks))
            record(self, device, stream, blocks, values, *rest)

        with patch.object(launch.Program, "launch", noted):
            call()
    return found, list(kernels.values())


def stem(name):
    """A kernel's name without what its skeleton is called."""
    return name.split("_reduce")[0].split("_map")[0]


def softmax(x, axis=-1):
    return ops.softmax(x, axis=axis)


@pytest.mark.parametrize(("shape", "axis", "least"), [
    ((1, 1 << 22), -1, 132), ((8, 300_007), -1, 132), ((4096, 2048), 0, 132),
    ((64, 32, 1024), 1, 132)])
def test_all_multiprocessors_work_on_few_rows_and_on_rows_across(shape, axis, least):
    needs_compiler()
    found, _ = launches(lambda: softmax(np.zeros(shape, F32), axis))
    assert [stem(name) for name, _ in found] == ["softmax_stage0", "softmax_element"]
    assert all(blocks >= least for _, blocks in found)


@pytest.mark.parametrize(("shape", "axis"), [
    ((200, 1 << 16), -1), ((8, 32_768), -1), ((100, 100), 0)])
def test_other_rows_are_one_launch(shape, axis):
    needs_compiler()
    ((name, _),), _ = launches(lambda: softmax(np.zeros(shape, F32), axis))
    assert name == "softmax_row"


@pytest.mark.parametrize(("shape", "rows_of_block"), [
    ((300_007, 13), 256), ((400_003, 31), 128), ((270_001, 9), 256), ((9, 70_001), 256),
    ((300_007, 128), 256)])
def test_rows_of_few_elements_have_a_thread_each(shape, rows_of_block):
    """Long ones have lanes."""
    needs_compiler()
    axis = 0 if shape[0] < shape[1] else 1
    ((name, blocks),), (kernel,) = launches(
        lambda: softmax(np.zeros(shape, F32), axis))
    tiled = axis == 1 and shape[1] < 128
    assert (name, kernel.threads) == ("softmax_row", 128 if tiled else 256)
    rows = shape[1] if axis == 0 else shape[0]
    if shape[1] != 128:
        assert blocks == -(-rows//rows_of_block)


def test_a_thread_for_each_of_many_short_rows_reads_beside_its_neighbours():
    needs_compiler()
    ((name, blocks),), (kernel,) = launches(
        lambda: softmax(np.zeros((2, 21, 1 << 16), F32), 1))
    assert (name, blocks) == ("softmax_row", 512)
    assert kernel.threads == 256


def both(function, *arrays):
    v = [nf.Variable(a, requires_grad=True) for a in arrays]
    function(*v).backward(arrays[0])


CALLS = {
    "softmax": lambda x: both(softmax, x),
    "softmax across": lambda x: both(lambda v: softmax(v, 0), x.T.copy()),
    "layer_norm": lambda x: both(ops.layer_norm, x, x[0], x[0]),
}


@pytest.mark.parametrize("dtype", sampled([F32, BFLOAT16, np.dtype("f8")], F32),
                         ids=str)
@pytest.mark.parametrize("what", sampled(CALLS, "layer_norm"))
def test_kernels_of_split_rows_do_not_spill(what, dtype):
    needs_compiler()
    shape = (1024, 2048) if what.endswith("across") else (2, 1 << 20)
    _, kernels = launches(lambda: CALLS[what](np.zeros(shape, dtype)))
    assert len(kernels) >= 5
    for kernel in kernels:
        code, said = assembled(kernel)
        assert dtype.itemsize == 8 or ".f64" not in code
        assert said is None or registers(said)[1] == 0


def steps(function, kinds, types):
    return split_steps(function.spec(kinds, -1).typed(types)).steps


def test_stages_that_need_nothing_of_one_another_are_one_reduction():
    """A maximum and its sum as well; whatever a label picks goes with them."""
    kinds, types = ("element", "row", "scalar"), (F32, I64, Weak("int"))
    found = steps(_cross_entropy, kinds, types)
    assert [s.name for s in found] == ["stage0", "row"]
    assert [(p.begin, p.end) for p in found[0].typed.parts] == [(0, 2), (2, 3)]
    found = steps(_smoothed, ("element", "row", "scalar", "scalar"),
                  (F32, I64, Weak("float"), Weak("int")))
    assert [s.name for s in found] == ["stage0", "row"]
    found = steps(_layer_norm, ("element", "column", "column", "scalar"),
                  (F32, F32, F32, Weak("float")))
    assert [s.name for s in found] == ["stage0", "stage1", "element"]
    assert found[1].arrays == ("x", "mean")
    assert found[1].numbers == ("size", "eps")


@row(w="column")
def numbered(x, w):
    @stage("sum")
    def total(x, w, index):
        return x*w*index

    return total*w*x


def test_sums_over_rows_that_read_the_column_are_not_split():
    needs_compiler()
    x = np.zeros((2, 1 << 20), F32)
    found, _ = launches(lambda: both(numbered, x, x[0]))
    names = [stem(name) for name, _ in found]
    assert names[0] == "numbered_stage0"
    assert names[-2:] == ["numbered_vjp_row", "numbered_vjp_total"]


def test_saved_values_have_their_place_in_outputs(monkeypatch):
    """Those that a row has one of; a value for every element is stored by a map."""
    needs_compiler()
    rows, x = [], np.zeros((2, 1 << 20), F32)

    def noted(row, place):
        rows.append(row)
        return split_steps(row, place)

    monkeypatch.setattr(split_launcher, "split_steps", noted)
    v = nf.Variable(x + 0, requires_grad=True)
    launches(lambda: ops.layer_norm(v, x[0], x[0], eps=1e-3))
    made = rows[0]
    names = [str(o.function.function.results[0]) for o in made.outs[1:]]
    found = split_steps(made)
    assert found.saved == {name: k for k, name in enumerate(names, 1)}
    assert [s.name for s in found.steps] == ["stage0", "stage1", "element"]
    wide = replace(made, outs=(made.outs[0], replace(made.outs[1], kind="element"),
                               *made.outs[2:]))
    found = split_steps(wide)
    assert sorted(found.saved) == sorted(names[1:])
    assert found.steps[-1].outputs == (0, 1)
