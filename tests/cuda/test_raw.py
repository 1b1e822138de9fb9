"""Kernels of threads compile for every dtype and feature; no GPU needed."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.arrays import Array
from nbfused.backend import Call, Signature
from nbfused.cuda import raw
from nbfused.cuda.runtime import compile
from nbfused.dispatch.bounds import NOTE, bounds_checked_raw
from nbfused.errors import CompileError, RangeError
from nbfused.gpu.raw_kernel import RawLauncher
from nbfused.kernels.threads.recording.tapes import derivative_kernel, shared_dtypes
from nbfused.support.dtypes import DTYPES
from tests.cuda.recorded import assembled
from tests.kernels.threads.shared_kernels import gathered, in_place, matmul, softmax
from tests.kernels.threads.styles import bodies, cases, geometry, images
from tests.kernels.threads.test_rawkernel_places import compacted
from tests.raw_specs import spec_of
from tests.variants import sampled, sampled_together

try:
    compile._numba_cuda()
except CompileError as missing:
    pytest.skip(str(missing), allow_module_level=True)

ALL = 0xffffffff
#: These enter the table of cases when they are imported.
MODULES = (bodies, geometry, images)


def text_of(kernel, *args, code="c"):
    """What would be compiled for arguments of these types."""
    spec, signature = spec_of(kernel, *args, code=code)
    return raw.RawText(spec.typed(signature.inputs), signature)


@nf.rawkernel
def integers(x, y):
    i = nf.grid(1)
    v = x[i]
    y[i] = nf.atomic.add(x, i, v)
    y[i] = nf.atomic.min(x, i, v)
    y[i] = nf.atomic.max(x, i, v)
    y[i] = nf.atomic.and_(x, i, v)
    y[i] = nf.atomic.or_(x, i, v)
    y[i] = nf.atomic.xor(x, i, v)
    y[i] = nf.atomic.exch(x, i, v)
    y[i] = nf.atomic.cas(x, i, v, v)
    nf.atomic.add(x, i, v)


@nf.rawkernel
def floats(x, y):
    i = nf.grid(1)
    v = x[i]
    y[i] = nf.atomic.add(x, i, v)
    y[i] = nf.atomic.min(x, i, v)
    y[i] = nf.atomic.max(x, i, v)
    y[i] = nf.atomic.exch(x, i, v)
    y[i] = nf.atomic.cas(x, i, v, v)
    nf.atomic.add(x, i, v)


@nf.rawkernel
def complexes(x, y):
    i = nf.grid(1)
    v = x[i]
    y[i] = nf.atomic.add(x, i, v) + nf.shfl_xor_sync(ALL, v, 1)


@nf.rawkernel
def blocks(x, y):
    shared = nf.shared.array((64, 2), "float32")
    i = nf.grid(1)
    v = x[i]
    v = nf.shfl_xor_sync(ALL, v, 1)
    v = nf.shfl_down_sync(ALL, v, 1)
    v = nf.shfl_up_sync(ALL, v, 1)
    v = nf.shfl_sync(ALL, v, nf.laneid)
    shared[nf.threadIdx.x, 1] = 1.0
    nf.syncthreads()
    nf.syncwarp()
    nf.atomic.add(shared, (nf.warpsize, 0), shared[i % 64, 1])
    if i < x.shape[0]:
        y[i] = v


def kernels_for(dtype):
    own = integers if dtype.kind in "iu" else complexes if dtype.kind == "c" else floats
    return [blocks] if dtype.kind == "b" else [own] if dtype.kind == "c" \
        else [own, blocks]


CASES = [(d, k) for d in DTYPES.values() for k in kernels_for(d)]
#: A dtype of each kind and of each size.
TYPICAL = ("bool", "int8", "int64", "float16", "float32", "complex64")


@pytest.mark.parametrize(("dtype", "kernel"), sampled_together(
    CASES, *(case for case in CASES if case[0].name in TYPICAL)),
                         ids=lambda c: getattr(c, "__name__", None) or c.name)
def test_every_dtype_assembles(dtype, kernel):
    x = np.zeros(4, dtype)
    for arch in ((7, 5), (9, 0)):
        code, _ = assembled(text_of(kernel, x, x).kernel(256), arch)
    if dtype.itemsize < 8:
        assert ".f64" not in code


def test_kernels_that_look_where_they_index_assemble():
    x = np.zeros(4, np.float32)
    typed, signature = spec_of(blocks, x, x)
    looking = bounds_checked_raw(typed)
    signature = Signature((*signature.inputs, NOTE), (), (), (*signature.inner, "c2"))
    text = raw.RawText(looking.spec.typed(signature.inputs), signature)
    code, _ = assembled(text.kernel(256))
    assert "st.global.u64" in code or "st.u64" in code  # notes: 64 bits, x has 32


def test_derivatives_assemble():
    @nf.rawkernel(differentiable=True)
    def gather(x, index, y):
        i = nf.grid(1)
        if i < y.shape[0]:
            y[i] = x[index[i], 0] * x[index[i], 1]

    x = np.zeros((4, 2), np.float32)
    index, y = np.zeros(3, np.int32), np.zeros(3, np.float32)
    taken = gather.flatten(gather.arguments((x, index, y), {}))
    for derivative in (gather.bwd, gather.fwd):
        spec = derivative.spec(gather.spec(taken), (True, False, True))
        types = tuple(a.dtype for a in (x, index, y, x, y))
        codes = tuple(f"c{a.ndim}" for a in (x, index, y, x, y))
        signature = Signature(types, (), (), codes)
        code, _ = assembled(raw.RawText(spec.typed(types), signature).kernel(256))
        assert ("red." in code or "atom." in code) == (derivative is gather.bwd)


@pytest.mark.parametrize("name", sampled(
    ["rigid", "closest", "splat", "compacted"], "rigid", "compacted"))
def test_composite_numbers_and_counted_places_assemble(name):
    """In float32, without an operation in float64; also what records a launch."""
    if name == "compacted":
        kernel, counted = compacted, np.zeros(3, np.int32)
        given = [*(np.zeros(4, np.float32) for _ in "xof"), counted]
        given = [given[0], counted, *given[1:3]]
    else:
        kernel = cases.CASES[name].kernel
        given = [in_float32(v) for v in cases.CASES[name].arguments.values()]
    codes, derived = assembled_with_derivative(kernel, given)
    assert bool(derived.counted) == (name == "compacted")
    assert len(codes) == 3 or not derived.counted
    assert not any(".f64" in code for code in codes)


def assembled_with_derivative(kernel, given):
    """The code of a kernel, of ``bwd`` and of what records for it; and the latter."""
    taken = kernel.flatten(kernel.arguments(given, {}))
    spec, signature = spec_of(kernel, *given)
    floating = tuple(type(v) is Array and v.dtype.kind == "f" for v in taken.values)
    derived = derivative_kernel(spec, floating, "bwd")
    bars = [t for t, f in zip(signature.inputs, floating, strict=True) if f]
    arrays = [v for v in taken.values if type(v) is Array]
    codes = [f"c{a.ndim}" for a in arrays]
    more = [f"c{a.ndim}" for a in arrays if a.dtype.kind == "f"]
    known = dict(zip(spec.function.params, signature.inputs, strict=True))
    if derived.recorder is not None:
        known |= shared_dtypes(derived.recorder.function)
    tapes = [known[p] for p in derived.tapes]
    found = [(spec, signature.inputs, codes),
             (derived.spec, (*signature.inputs, *bars, *tapes),
              [*codes, *more, *("c2" for _ in tapes)])]
    if derived.recorder is not None:
        found.append((derived.recorder, (*signature.inputs, *tapes),
                      [*codes, *("c2" for _ in tapes)]))
    return [assembled(raw.RawText(each.typed(types), Signature(
        types, (), (), tuple(layout))).kernel(256))[0]
        for each, types, layout in found], derived


@pytest.mark.parametrize("kernel", sampled(
    [softmax, matmul, gathered, in_place], gathered, in_place))
def test_what_passes_between_threads_assembles(kernel):
    given = {"softmax": (1, 1), "matmul": (2, 2, None, 2), "gathered": (1, "i", 1),
             "in_place": (1, 1)}[kernel.__name__]
    codes, derived = assembled_with_derivative(kernel, [
        5 if n is None else np.zeros(3, np.int32) if n == "i" else np.zeros((4,)*n)
        for n in given])
    assert bool(derived.tapes) == (kernel is not gathered)
    waits = "shfl." if kernel is gathered else "bar."
    assert all(waits in code for code in codes)


def in_float32(value):
    if isinstance(value, tuple):
        return type(value)(*map(in_float32, value))
    floating = isinstance(value, np.ndarray) and value.dtype.kind == "f"
    return value.astype(np.float32) if floating else value


class Device:
    label, shared_limit = "cuda:0", 1000


class Program:
    launched: list[tuple[object, ...]] = []  # noqa: RUF012

    def __init__(self, kernel):
        self.kernel = kernel

    def launch(self, *arguments):
        self.launched.append((self.kernel.threads, *arguments))


def test_launch_is_what_the_user_asks_for():
    """The user's grid and block; fewer threads may have more registers."""
    x = np.zeros(4, np.float32)
    launcher = RawLauncher(text_of(blocks, x, x), "blocks", lambda number: Device,
                           Program)
    call = Call((), (1, 2), ((1,), (1,)), (), 0, 7, ((4,), (4,)), grid=(3, 2, 1),
                block=(300, 1, 1))
    launcher(call)
    threads, _, stream, grid, values, shared, block = Program.launched.pop()
    assert (threads, stream, grid, block) == (512, 7, (3, 2, 1), (300, 1, 1))
    assert values == (1, 2, 4)
    assert shared == 512
    call.shared = 500
    with pytest.raises(RangeError, match="512 bytes of shared arrays and 500"):
        launcher(call)
    assert not Program.launched


def test_a_kernel_named_by_an_underscore():
    @nf.rawkernel
    def _(x, y):
        y[nf.grid(1)] = x[nf.grid(1)]

    x = np.ones(4, np.float32)
    assembled(text_of(_, x, x).kernel(256))
