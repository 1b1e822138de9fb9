"""Large Maps and Reduces say what the second cache gives up first; others do not."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops
from nbfused.cuda.runtime import binding as bound
from nbfused.cuda.runtime import compile, driver
from nbfused.cuda.runtime.launch import Program
from nbfused.cuda.text import hints
from nbfused.errors import CompileError, OverlapError
from nbfused.gpu.operands import Operand
from nbfused.support.dtypes import BFLOAT16
from tests.cuda.recorded import NoDevice, recording
from tests.variants import sampled, sampled_together

CACHE = 1 << 12
POLICY = r"createpolicy\.fractional\.L2::evict_(\w+)\.b64"
HINTED = r"ld\.global\.L2::cache_hint\S+"


def codes(monkeypatch, call, arch=(9, 0)):
    """The PTX of what a call launches on a device with a small cache."""
    try:
        compile._numba_cuda()
    except CompileError as missing:
        pytest.skip(str(missing))
    monkeypatch.setattr(NoDevice, "cache_size", CACHE)
    with recording(arch) as kernels:
        call()
    return [compile.ptx(kernel, arch) for kernel in kernels.values()]


def policies(monkeypatch, call, **given):
    """Whose lines are hinted in each kernel; every policy belongs to a load."""
    found = []
    for code in codes(monkeypatch, call, **given):
        kept = re.findall(POLICY, code)
        assert len(kept) == len(re.findall(HINTED, code))
        assert not re.search(r"st\.global\S*cache_hint", code)
        found.append(set(kept))
    return found


def of(nbytes, dtype=np.float32):
    return np.ones(nbytes // np.dtype(dtype).itemsize, dtype)


@pytest.mark.parametrize("dtype", sampled(
    [BFLOAT16, np.float32, np.float64, np.uint8], BFLOAT16, np.float64))
def test_maps_by_what_they_read(monkeypatch, dtype):
    limit = hints.MAP_READS*CACHE
    for nbytes, kept in ((limit, set()), (limit + 64, {"last"})):
        x = of(nbytes, dtype)
        assert policies(monkeypatch, lambda x=x: ops.multiply(x[:-1], x[:-1])) == [
            {"last"}]  # two inputs
        assert policies(monkeypatch, lambda x=x: ops.square(x)) == [kept]


def test_every_whole_access_of_a_map_is_hinted(monkeypatch):
    x = of(4*CACHE)
    (code,) = codes(monkeypatch, lambda: ops.adam_step(
        x, x + 1, x + 2, x + 3, lr=1e-3, step=1))
    assert not re.search(r"ld\.global\.v\d", code)
    assert len(re.findall(HINTED, code)) >= 4


def test_a_broadcast_operand_counts_once(monkeypatch):
    rows = hints.MAP_READS*CACHE//1024
    x, b = np.ones((rows, 256), np.float32), np.ones(256, np.float32)
    assert policies(monkeypatch, lambda: ops.add(x[:-1], b)) == [set()]
    assert policies(monkeypatch, lambda: ops.add(x, b)) == [{"last"}]


def test_without_whole_accesses_there_is_no_hint(monkeypatch):
    x = of(8*CACHE)
    square = np.ones((128, 128), np.float32)
    strange = np.ones(8*CACHE + 4, np.uint8)[4:].view(np.float32)
    for call in (lambda: ops.square(x[::2]), lambda: ops.square(x[::-1]),
                 lambda: ops.add(square.T, square), lambda: ops.square(strange),
                 lambda: ops.square(of(8*CACHE, np.complex64))):
        assert policies(monkeypatch, call) == [set()]


@pytest.mark.parametrize(("axis", "dtype"), sampled_together(
    [(axis, dtype) for axis in (None, 0, 1) for dtype in (BFLOAT16, np.float32)],
    (None, BFLOAT16)))
def test_reductions_by_what_they_read(monkeypatch, axis, dtype):
    least, most = (int(n*CACHE) for n in hints.REDUCE_READS)
    width = 1024 // np.dtype(dtype).itemsize
    for nbytes, kept in ((least, set()), (least + 1024, {"first"}),
                         (most, {"first"}), (most + 1024, set())):
        x = np.ones((nbytes // 1024, width), dtype)
        found = policies(monkeypatch, lambda x=x: ops.sum(x, axis=axis))
        assert set.union(*found) == kept


def test_old_chips_have_no_policies(monkeypatch):
    assert policies(monkeypatch, lambda: ops.square(of(8*CACHE)), arch=(7, 5)) == [
        set()]


def test_what_has_no_instruction_is_loaded_plainly():
    for dtype, width, plain in (("float32", 4, False), ("uint8", 2, True),
                                ("complex64", 2, True), ("uint16", 8, False),
                                ("float64", 2, False), ("uint8", 4, False)):
        text = hints.loaded_text(Operand(3, np.dtype(dtype), "1"), width, "v", "last")
        assert text.startswith(f"load{width}(") == plain
        assert "(p3, v" in text


def test_bytes_read():
    call = SimpleNamespace(shape=(5, 7), strides=[(7, 1), (0, 1), (0, 0), (-7, 1)])
    operands = [Operand(k, np.dtype(d), "1") for k, d in enumerate(
        ("float32", "float64", "int8", "uint16"))]
    assert hints.bytes_read(call, operands) == 140 + 56 + 1 + 70


# --- on a device

SIZES = (1, 7, 1024, 4096, 12_345, 100_003)
TOLERANCE = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 1e-5, "float64": 1e-13}


@pytest.fixture
def launched(monkeypatch):
    """The texts of what runs, on a device whose cache is small."""
    texts, launch = [], Program.launch

    def noted(self, *given, **options):
        texts.append(self.kernel.text)
        launch(self, *given, **options)

    monkeypatch.setattr(driver.device(0), "cache_size", 1000)
    monkeypatch.setattr(hints, "REDUCE_READS", (2, 1 << 20))
    monkeypatch.setattr(Program, "launch", noted)
    monkeypatch.setattr(bound.Bindable, "bind", lambda self, call: None)
    return texts


def close(found, expected):
    found = nf.to_numpy(found)
    tolerance = TOLERANCE[found.dtype.name]
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=tolerance,
                               atol=tolerance*np.abs(expected).max())


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16, np.float32, np.float64])
def test_maps_with_hints(launched, dtype):
    @nf.elementwise
    def scaled_sum(x, y):
        return 2*x + y

    for size in SIZES:
        x, y = (np.random.default_rng(k).standard_normal(size + 9).astype(dtype)
                for k in (0, 1))
        wide = 2*x.astype(np.float64) + y.astype(np.float64)
        whole = nf.array(np.full(size + 16, 7, dtype), device="cuda")
        there, other = (nf.array(v, device="cuda") for v in (x, y))
        for start in (0, 1, 8):  # one of them is not aligned
            part = slice(start, start + size)
            scaled_sum(there[part], other[part], out=whole[8:8 + size])
            close(whole[8:8 + size], wide[part])
            ends = nf.to_numpy(whole).astype(np.float64)
            assert (ends[:8] == 7).all()
            assert (ends[8 + size:] == 7).all()
        close(scaled_sum(there[::-1], other[::-1]), wide[::-1])
        scaled_sum(there, other, out=there)  # in place
        close(there, wide)
        if size > 1:
            with pytest.raises(OverlapError):
                scaled_sum(there[1:], other[1:], out=there[:-1])
        close(there, wide)
    assert any("load_last" in text for text in launched)
    assert any("load_last" not in text for text in launched)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [BFLOAT16, np.float32, np.float64])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_reductions_with_hints(launched, dtype, axis):
    @nf.reduction(combine="sum")
    def sum_of_squares(x):
        return x*x

    for shape in ((1, 8), (37, 1000), (300, 264), (5, 40_008), (2053, 17)):
        x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
        there = nf.array(x, device="cuda")
        for view in (slice(None), slice(1, None), slice(None, None, 2)):
            want = np.square(x[:, view].astype(np.float64)).sum(axis=axis)
            close(sum_of_squares(there[:, view], axis=axis), want)
    assert any("load_first" in text for text in launched)
    assert any("load_first" not in text for text in launched)


@pytest.mark.cuda
def test_a_broadcast_operand_and_a_gradient(launched):
    x, b = (np.random.default_rng(0).standard_normal(n).astype(np.float32)
            for n in ((300, 264), (264,)))
    variable = nf.Variable(nf.array(x, device="cuda"), requires_grad=True)
    ops.sum(ops.sigmoid(variable)*nf.array(b, device="cuda")).backward()
    sigmoid = 1/(1 + np.exp(-x.astype(np.float64)))
    close(variable.grad, sigmoid*(1 - sigmoid)*b)
    assert any("load_last" in text for text in launched)
