"""What the kernels of Map and Reduce do to memory, read from their PTX; no GPU."""

from __future__ import annotations

import re

import numpy as np
import pytest

import nbfused as nf
from nbfused.backend import Signature
from nbfused.cuda.map.text import MapText
from nbfused.cuda.runtime import compile
from nbfused.dispatch.calls import COPY
from nbfused.errors import CompileError
from nbfused.support.dtypes import BFLOAT16
from tests.cuda.recorded import PTXAS, assembled, recording, registers
from tests.variants import sampled

try:
    compile._numba_cuda()
except CompileError as missing:
    pytest.skip(str(missing), allow_module_level=True)

X = np.zeros((64, 4096), np.float32)
WHOLE = {"load": r"ld\.global(?:\.nc)?\.v4\.[bfu]32",
         "store": r"st\.global\.v4\.[bfu]32"}


def kernels(call):
    with recording() as found:
        call()
    return list(found.values())


def code(kernel):
    return compile.ptx(kernel, (9, 0))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, BFLOAT16])
def test_a_map_moves_16_bytes_at_once(dtype):
    (kernel,) = kernels(lambda: nf.ops.swish(X.astype(dtype)))
    text = code(kernel)
    for pattern in WHOLE.values():
        assert re.search(pattern, text)
    # Anything less is of the few elements that are left over.
    narrow = r"ld\.global\.(?!v4\.[bfu]32)"
    assert len(re.findall(narrow, text)) == 1


def test_a_text_is_written_by_several_threads_at_once(monkeypatch):
    """Each for its device, or with its hint: none sees what another has begun."""
    spec, f4 = COPY, np.dtype("f4")
    text = MapText(spec.name, spec.typed((f4,), (f4,)),
                   Signature((f4,), (f4,), (1,), ("1", "1")), vector=True, threads=128)
    expected, body = text.kernel("last").text, MapText._body

    def interrupted(self, out):
        monkeypatch.setattr(MapText, "_body", body)
        text.kernel()  # by another thread
        body(self, out)

    monkeypatch.setattr(MapText, "_body", interrupted)
    assert text.kernel("last").text == expected


def test_no_thread_takes_what_others_take():
    """Loops are for the last block: elsewhere a thread has its own accesses."""
    (two,) = kernels(lambda: nf.ops.subtract(X, X))
    assert "while" not in two.text
    (one,) = kernels(lambda: nf.ops.swish(X))
    assert re.search(r"\n    else:\n        while v < vectors:", one.text)


@pytest.mark.parametrize("dtype", sampled([np.float32, BFLOAT16], BFLOAT16))
@pytest.mark.parametrize("call", [
    lambda x: nf.ops.sum(x), lambda x: nf.ops.sum(x, axis=1),
    lambda x: nf.ops.sum(x, axis=0)], ids=["all", "rows", "columns"])
def test_a_reduction_starts_several_accesses_at_once(dtype, call):
    first, *_ = kernels(lambda: call(np.zeros((64, 16384), dtype)))
    lines = [line for line in code(first).splitlines()
             if re.search(r"^\s+(ld\.global|add\.f32|add\.rn\.f32)", line)]
    run = "".join("l" if re.search(WHOLE["load"], x) else "a" for x in lines)
    assert "llll" in run, run


def test_results_of_16_bits_divide_without_a_branch():
    half = X.astype(BFLOAT16)
    (quotient,) = kernels(lambda: nf.ops.divide(half, half))
    assert "div.full.f32" in code(quotient)
    (sigmoid,) = kernels(lambda: nf.ops.swish(half))
    assert "rcp.approx.ftz.f32" in code(sigmoid)
    assert not re.search(r"div\.\w+\.f32", code(sigmoid))
    (single,) = kernels(lambda: nf.ops.divide(X, X))
    assert "div.full" not in code(single)
    assert re.search(r"div\.rn\.f32", code(single))


def test_sigmoid_of_float32_divides_without_a_branch():
    (sigmoid,) = kernels(lambda: nf.ops.swish(X))
    assert "rcp.approx.ftz.f32" in code(sigmoid)
    assert not re.search(r"div\.\w+\.f32", code(sigmoid))


def test_an_input_that_lies_across_goes_through_shared_memory():
    y = np.zeros((4096, 64), np.float32)
    (kernel,) = kernels(lambda: nf.ops.add(X.T, y))
    assert "tile" in kernel.name
    assert "st.shared" in code(kernel)
    used, spilled = registers(assembled(kernel)[1]) if PTXAS else (0, 0)
    assert spilled == 0
    assert used <= 64
    (narrow,) = kernels(lambda: nf.ops.add(X.T[:, :9], y[:, :9]))
    assert "tile" not in narrow.name


@pytest.mark.parametrize(("shape", "dtype", "through"), [
    ((90, 48, 64), "float32", False), ((90, 64, 64), "float32", True),
    ((90, 72, 63), "float32", False), ((90, 90, 64), "float32", True),
    ((90, 120, 120), "float32", True), ((90, 120, 120), "float16", False),
    ((90, 100, 80), "float32", False), ((90, 64, 128), "float16", True),
    ((90, 200, 190), "float16", True)])
def test_lines_of_small_matrices_stay_in_the_first_cache(shape, dtype, through):
    x, y = np.zeros(shape, dtype), np.zeros((*shape[:-2], *shape[:-3:-1]), dtype)
    (kernel,) = kernels(lambda: nf.ops.add(x, y.swapaxes(-1, -2)))
    assert ("tile" in kernel.name) is through


def test_tiles_take_no_more_shared_memory_than_there_is():
    @nf.elementwise
    def five(a, b, c, d, e):
        return a + b + c + d + e

    z = np.zeros((64, 128), np.complex128)
    (kernel,) = kernels(lambda: five(z.T, z.T, z.T, z.T, z.T.copy()))
    assert len(re.findall(r"shared\.array", kernel.text)) == 2
    assembled(kernel)


@pytest.mark.variants
@pytest.mark.skipif(PTXAS is None, reason="needs ptxas")
@pytest.mark.parametrize("dtype", [np.float32, np.float64, BFLOAT16])
@pytest.mark.parametrize("op", ["var", "argmax", "logsumexp"])
@pytest.mark.parametrize("axis", [0, 1])
def test_large_states_in_chunks_do_not_spill(op, axis, dtype):
    x = np.zeros((4096, 256) if axis == 0 else (64, 16384), dtype)
    (kernel,) = kernels(lambda: getattr(nf.ops, op)(x, axis=axis))
    assert kernel.name.endswith("last")
    assert registers(assembled(kernel)[1])[1] == 0


def test_halves_that_lie_across_are_accessed_in_pairs():
    x, y = np.zeros((512, 320), BFLOAT16), np.zeros((320, 512), BFLOAT16)
    (kernel,) = kernels(lambda: nf.ops.add(x.T, y))
    text = code(kernel)
    assert len(re.findall(r"ld\.global(?:\.nc)?\.[bu]32", text)) == 16
    assert len(re.findall(r"st\.global\.[bu]32", text)) == 8
    used, spilled = registers(assembled(kernel)[1]) if PTXAS else (0, 0)
    assert spilled == 0
    assert used <= 64
    odd = np.zeros((512, 321), BFLOAT16)[:, :320]
    for a in (x.T[1:], odd.T, x.T.astype(np.float32), x.T[:, :255]):
        (kernel,) = kernels(lambda a=a: nf.ops.add(
            a, np.zeros(a.shape, BFLOAT16)))
        assert "tile" in kernel.name
        assert "load2" not in kernel.text
