"""Which kernel a row gets, and that each is right at ragged sizes."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops
from nbfused.backend import Signature
from nbfused.cuda.row import skeleton
from nbfused.cuda.row.launcher import RowLauncher
from nbfused.cuda.row.plan import RowPlan
from nbfused.cuda.row.streamed import AHEAD, lanes_of_few, lanes_once
from nbfused.cuda.row.text import RowText
from nbfused.cuda.runtime import compile
from nbfused.cuda.runtime.launch import Program
from nbfused.errors import CompileError
from nbfused.op import row, stage
from nbfused.ops.losses import _cross_entropy, _smoothed
from nbfused.scalar.typing.types import Weak
from tests.cuda.recorded import assembled, recording, registers
from tests.variants import sampled, sampled_together

BFLOAT16 = nf.arrays.BFLOAT16
DTYPES = [np.dtype(np.float32), BFLOAT16]
#: A block for each of so many keeps the device busy; fewer are split if they are long.
ROWS = 128


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", [ops.softmax, ops.log_softmax, ops.layer_norm,
                                      ops.rms_norm])
def test_rows_that_begin_anywhere_are_read_once(function, dtype):
    """Each lane loads an element of x at a time, and nothing spills."""
    needs_numba()
    x = np.zeros((40, 223), dtype)
    (kernel,) = kernels(lambda: function(x))
    assert "x0_6_0 = p0[base0 + most]" in kernel.text
    assert kernel.text.count("= p0[") == 7
    _, said = assembled(kernel)
    assert said is None or registers(said)[1] == 0


def test_stages_that_do_not_need_each_other_share_a_pass():
    types = (np.dtype("float32"), np.dtype("int64"), Weak("float"), Weak("int"))
    spec = _smoothed.spec(("element", "row", "scalar", "scalar"), -1)
    typed = spec.typed(types)
    text = RowText("cross_entropy", typed, Signature(
        types, (types[0],), (1, 1), ("1", "0", "0")))
    assert text.levels() == [[0, 3], [1]]
    assert text.levels(together=True) == [[0, 1, 3]]
    assert list(text.points) == [2]


def kernels(call):
    with recording() as found:
        call()
    return list(found.values())


def both(function, *arrays):
    v = [nf.Variable(a, requires_grad=True) for a in arrays]
    function(*v).backward(arrays[0])


def needs_numba():
    try:
        compile._numba_cuda()
    except CompileError as missing:
        pytest.skip(str(missing))


def test_sums_over_rows_are_one_kernel_and_one_total():
    needs_numba()
    x = np.zeros((64, 512), np.float32)
    found = kernels(lambda: both(ops.layer_norm, x, x[0], x[0]))
    assert [k.name for k in found] == ["layer_norm_row", "layer_norm_vjp_row",
                                       "layer_norm_vjp_total"]


@pytest.mark.parametrize(("columns", "dtype"), sampled_together(
    [(c, d) for c in (32768, 32760) for d in DTYPES],
    (32768, DTYPES[0])))
def test_clusters(columns, dtype):
    needs_numba()
    x = np.zeros((4, columns), dtype)
    kernel = kernels(lambda: both(ops.rms_norm, x, x[0]))[1]
    code, said = assembled(kernel)
    assert kernel.cluster in (2, 8)
    assert f".reqnctapercluster {kernel.cluster}, 1, 1" in code
    assert "st.async.shared::cluster" in code
    assert "st.global.v4" in code
    if said is not None:
        assert registers(said)[1] == 0


@pytest.mark.parametrize("dtype", sampled(DTYPES, DTYPES[0]))
def test_a_row_is_finished_while_the_next_one_is_summed(dtype):
    needs_numba()
    x = np.zeros((4, 32768), dtype)
    kernel = kernels(lambda: both(ops.softmax, x))[1]
    code, said = assembled(kernel)
    sent, got = (code.index(text) for text in ("st.async", "mbarrier.try_wait"))
    copied = code.rindex("cp.async.cg", 0, sent)
    assert copied < sent < got < code.index("st.global.v4")
    assert "cp.async.cg" not in code[sent:]
    if said is not None:
        assert registers(said)[1] == 0


def long_row(dtype, columns, call):
    """The PTX of a row's forward kernel, which must not spill, for many rows."""
    x = np.zeros((ROWS, columns), dtype)
    kernel = kernels(lambda: call(x))[-1]
    assert kernel.cluster == 1
    code, said = assembled(kernel)
    if said is not None:
        assert registers(said)[1] == 0
    return code


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("columns", sampled([128_256, 300_000, 50_257], 50_257))
def test_a_long_row_of_which_only_sums_are_wanted_is_read_once(
        dtype, columns):
    needs_numba()
    labels = np.zeros(ROWS, np.int64)
    code = long_row(dtype, columns,
                    lambda x: _cross_entropy(x, labels, -1))
    assert code.count("ld.global.v4") == AHEAD
    # one for each element, one for each access, two for each time that lanes are joined
    accesses = columns*dtype.itemsize//16
    lanes = lanes_of_few(lanes_once(accesses, 512), accesses, 512, ROWS/132)
    joins = lanes.bit_length() - 1
    alone = 2*(columns == 50_257)  # an element outside of the aligned accesses
    assert code.count("ex2.approx") == AHEAD*(16//dtype.itemsize + 1) + 2*joins + alone


def test_the_sum_of_a_longer_row_goes_with_its_maximum():
    needs_numba()
    code = long_row(np.float32, 1_000_000, ops.softmax)
    assert code.count("ld.global.v4") == 2*AHEAD  # not three passes
    assert code.count("bar.sync") == 1


@pytest.mark.variants
def test_a_large_block_loads_values_of_columns_together_before_it_stores():
    needs_numba()
    for columns, dtype, threads in ((32768, np.float32, 1024), (32768, BFLOAT16, 512),
                                    (4096, np.float32, 512)):
        x = np.zeros((4, columns), dtype)
        for call, most in ((lambda x: ops.rms_norm(x, x[0]), 4),
                           (lambda x: ops.layer_norm(x, x[0], x[1]), 2)):
            if most == 4 and columns == 4096:  # such rows are brought
                continue
            (kernel,) = kernels(lambda x=x, call=call: call(x))
            assert (kernel.threads, kernel.cluster) == (threads, 1)
            code, said = assembled(kernel)
            before = code[code.rindex("bar.sync"):code.index("st.global.v4")]
            width, inputs = 16//x.dtype.itemsize, 4//most
            together, kept = 4*most//width, columns//threads//width
            hint = ".L1::evict_last" if inputs == 1 and together < kept else ""
            assert before.count(f"ld.global{hint}.v4") == (
                together if together < kept else 1)*inputs
            if said is not None:
                used, spilled = registers(said)
                assert spilled == 0
                assert kept > 2 or used <= 32  # so four such blocks are resident


@pytest.mark.parametrize("columns", sampled([1024, 1000, 4096], 1024))
@pytest.mark.parametrize("dtype", sampled(DTYPES, DTYPES[0]))
def test_values_of_columns_stay_in_registers_from_row_to_row(
        dtype, columns):
    needs_numba()
    x = np.zeros((64, columns), dtype)
    for call in (lambda: both(ops.rms_norm, x, x[0]),
                 lambda: both(ops.layer_norm, x, x[0], x[0])):
        kernel = kernels(call)[1]
        code, said = assembled(kernel)
        loop = code[code.index("cp.async.wait_all"):]
        assert "ld.global.v4" not in loop
        assert "ld.global.v4" in code
        if said is not None:
            assert registers(said)[1] == 0


@row
def weighted(x, weight):
    @stage("sum")
    def total(x):
        return x

    return x/total*weight


@pytest.mark.parametrize(("dtype", "weight"), [
    (np.float64, np.int8), (np.float32, np.bool_), (np.float64, np.float16),
    (np.float32, np.complex64), (np.complex64, np.float32)])
@pytest.mark.parametrize("columns", sampled([1000, 8192], 1000))
def test_values_of_columns_may_have_another_dtype(columns, dtype, weight):
    needs_numba()
    x, w = np.zeros((4, columns), dtype), np.zeros(columns, weight)
    (kernel,) = kernels(lambda: weighted(x, w))
    _, said = assembled(kernel)
    if said is not None:
        assert registers(said)[1] == 0


@pytest.mark.parametrize("columns", [1001, 1024, 32768])
def test_a_derivative_begins_with_the_last_row(columns):
    needs_numba()
    x = np.zeros((4, columns), np.float32)
    for call in (lambda: both(ops.softmax, x), lambda: both(ops.rms_norm, x, x[0])):
        first, second, *_ = kernels(call)
        assert "rows - 1" not in first.text
        assert "rows - 1" in second.text


@pytest.mark.variants
def test_what_large_arrays_bring_is_the_last_to_leave_the_cache():
    needs_numba()
    wide, narrow = (np.zeros((8192, 4096), d) for d in DTYPES)
    for x, hints in ((wide, [2, 4]), (narrow, [0, 8]), (wide[:1000], [0, 0])):
        found = kernels(lambda x=x: both(ops.softmax, x))
        assert [compile.ptx(k, (9, 0)).count("ld.global.L2::cache_hint")
                for k in found] == hints
        assert "cache_hint" not in compile.ptx(found[1], (7, 5))
    for call, loads, copies in ((ops.layer_norm, 2, 0), (ops.rms_norm, 0, 1)):
        weights = wide[:2] if call is ops.layer_norm else wide[:1]
        (kernel,) = kernels(lambda c=call, w=weights: c(wide, *w))
        code, said = assembled(kernel)
        assert code.count("ld.global.L2::cache_hint") == loads  # not of the weights
        assert code.count("complete_tx::bytes.L2::cache_hint") == copies
        if said is not None:
            assert registers(said)[1] == 0


@pytest.mark.parametrize("call", [ops.softmax, ops.log_softmax])
@pytest.mark.parametrize("columns", [4096, 4000, 2052])
def test_large_blocks_with_few_elements_leave_room_for_four(call, columns):
    needs_numba()
    x = np.zeros((4, columns), np.float32)
    (kernel,) = kernels(lambda: call(x))
    assert (kernel.threads, kernel.blocks) == (512, 4)
    _, said = assembled(kernel)
    if said is not None:
        used, spilled = registers(said)
        assert (used <= 32, spilled) == (True, 0)


def test_no_cluster_before_hopper():
    needs_numba()
    with recording((8, 0)) as found:
        both(ops.softmax, np.zeros((4, 32768), np.float32))
    for kernel in found.values():
        assert kernel.cluster == 1
        assembled(kernel, (8, 0))


def test_elements_are_loaded_by_whole_accesses():
    needs_numba()
    x = np.zeros((8, 1024), BFLOAT16)
    (kernel,) = kernels(lambda: ops.softmax(x))
    code = compile.ptx(kernel, (9, 0))
    assert code.count("ld.global.v4.b32") == 2
    assert code.count("st.global.v4.") == 2
    assert "div." not in code


@pytest.mark.parametrize("dtype", sampled([np.float16, BFLOAT16], BFLOAT16))
def test_sixteen_bit_floats_are_compared_in_pairs(dtype):
    needs_numba()
    x = np.zeros((8, 1024), dtype)
    kind = "f16" if dtype == np.float16 else "bf16"
    for arch, pairs in (((8, 0), 2*4), ((7, 5), 0)):  # accesses of four words
        with recording(arch) as found:
            ops.softmax(x)
        (kernel,) = found.values()
        code = compile.ptx(kernel, arch)
        assert code.count(f"max.NaN.{kind}x2") == pairs


@nf.row(w="column")
def masked(x, w):
    @nf.stage("sum")
    def total(x, w):
        return x*w

    return x*w - total


@pytest.mark.parametrize("dtypes", [
    ("float64", "bool"), ("int32", "uint8"), ("int64", "int8"),
    ("float32", "complex64"), ("complex64", "complex64"), ("complex128", "float32")],
    ids=str)
def test_columns_and_elements_of_all_widths(dtypes):
    """Bytes beside 8 bytes, complex numbers: no whole words of real numbers."""
    needs_numba()
    x, w = np.zeros((4, 1024), dtypes[0]), np.zeros(1024, dtypes[1])
    (kernel,) = kernels(lambda: masked(x, w))
    assembled(kernel)


@nf.row(label="row")
def without(x, label):
    @nf.stage("sum")
    def picked(x, label, index):
        return x if index == label else 0.0

    return x - picked


def test_blocks_of_a_row_that_exchange_nothing_are_no_cluster(monkeypatch):
    """So the driver is not asked how many clusters there may be."""
    types = (np.dtype("float32"), np.dtype("int64"))
    spec = without.spec(("element", "row"), -1)
    launcher = RowLauncher(spec.name, spec.typed(types, types[:1]), Signature(
        types, types[:1], (1, 1), ("1", "0", "1")))
    plan = RowPlan(256, True, 5, True, 8, resident=1024)
    monkeypatch.setattr(Program, "clusters", None)
    where = SimpleNamespace(processors=132)
    assert launcher._resident(plan, where, 0) == 132*4
    assert skeleton.kernel(launcher.text, plan).cluster == 1
