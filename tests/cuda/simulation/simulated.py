"""The CUDA backend with Numba's simulator in the device's place, on NumPy arrays.

Only where ``NUMBA_ENABLE_CUDASIM=1`` was set before Numba was imported: a process of
its own.  The same launchers, the same kernel text; Python stand-ins for what
`nbfused.cuda.isa.intrinsics` builds from LLVM IR, and blocks of 64 threads.
"""

from __future__ import annotations

import ctypes
import math
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
from numba import cuda
from scipy import special

from nbfused.backend import NumberOf
from nbfused.cuda import CudaBackend
from nbfused.cuda.contract import mma_launch as contract_mma_launch
from nbfused.cuda.contract import pack as contract_pack
from nbfused.cuda.contract.general import launch as contract_general_launch
from nbfused.cuda.contract.general.tile import Tile
from nbfused.cuda.graphs import workspaces
from nbfused.cuda.map import launcher as map_
from nbfused.cuda.map import row_gathers
from nbfused.cuda.map import rows as map_rows
from nbfused.cuda.reduce import launcher as reduce
from nbfused.cuda.row import launcher as row
from nbfused.cuda.row import plan as row_plan
from nbfused.cuda.row import tiled as row_tiled
from nbfused.cuda.row import total as row_total
from nbfused.cuda.runtime import driver, launch, scratch
from nbfused.cuda.runtime.notes import NOTES, Launched
from nbfused.scalar.ir.interpret import _to_odd
from nbfused.scalar.language.vocabulary import OPS
from nbfused.scalar.printing.numba import NAMES
from nbfused.support.llvm.division import DIVISION_CALLS
from tests.cuda.recorded import overwritten_parameters
from tests.cuda.simulation import simulated_mma, turns
from tests.cuda.simulation.atomics import add, add_half, bits, fetches, value

THREADS = 64
#: Thread-local memory of each computing dtype, in NumPy's letters; a bool is a byte.
LOCALS = {"b1": "B", **{f"i{8*n}": f"i{n}" for n in (1, 2, 4, 8)},
          **{f"u{8*n}": f"u{n}" for n in (1, 2, 4, 8)}, "f32": "f", "f64": "d",
          "c64": "F", "c128": "D"}


class Pointer:
    """What a C pointer to elements is: an address with an index."""

    def __init__(self, address, dtype):
        self.address, self.dtype = int(address), np.dtype(dtype)
        self.item, self.number = self.dtype.itemsize, self.dtype.type
        self.c = np.ctypeslib.as_ctypes_type(dtype) if self.dtype.kind != "c" else None

    def __getitem__(self, index):
        at = self.address + int(index)*self.item
        if self.c is None:
            return np.frombuffer(ctypes.string_at(at, self.item), self.dtype)[0]
        return self.number(self.c.from_address(at).value)

    def __setitem__(self, index, value):
        at = self.address + int(index)*self.item
        data = np.asarray(value).astype(self.dtype).tobytes()
        ctypes.memmove(at, data, self.item)


class Functions:
    """`math` and `libdevice` on NumPy scalars: float32 stays float32."""

    NAMES: ClassVar = {
        "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh",
        "acosh": "arccosh", "atanh": "arctanh", "atan2": "arctan2", "pow": "power",
        "lgamma": "gammaln"}

    def __getattr__(self, name):
        if name in ("inf", "nan"):
            return getattr(math, name)
        if hasattr(np, name.removesuffix("f")) and name.endswith("f"):
            name = name.removesuffix("f")
        name = self.NAMES.get(name, name)
        return getattr(np, name, None) or getattr(special, name)


def _load(width):
    def load(pointer, index):
        assert _aligned(pointer, index, width), "an access is not aligned"
        return tuple(pointer[index + k] for k in range(width))
    return load


def _aligned(pointer, index, width):
    at = pointer.address + int(index)*pointer.dtype.itemsize
    return at % min(16, width*pointer.dtype.itemsize) == 0


def _store(width):
    def store(pointer, index, values):
        assert len(values) == width
        assert _aligned(pointer, index, width), "an access is not aligned"
        for k, each in enumerate(values):
            pointer[index + k] = each
    return store


def _copy(width):
    def copy(target, at, source, index):
        _store(width)(target, at, _load(width)(source, index))
    return copy


def _stream(width):
    def stream(pointer, index, wanted):
        return _load(width)(pointer, index) if wanted else \
            (np.zeros(1, pointer.dtype)[0],)*width
    return stream


def _divide_short(a, b, by):
    """As the kernel computes it: the inverse's product, corrected once."""
    less = int(a)*int(by) >> 32
    return np.int64(less + (int(a) - less*int(b) >= int(b)))


def _until_aligned(width):
    def until_aligned(pointer, index):
        return -(pointer.address//pointer.dtype.itemsize + index) % width
    return until_aligned


def _pairs(function, dtype):
    def extremum(pair, elements):
        halves = np.asarray([pair & 0xFFFF, pair >> 16, *elements], np.uint16)
        found = function.reduce(halves.view(dtype).astype(np.float32).reshape(-1, 2))
        return found.astype(dtype).view(np.uint32)[0]
    return extremum


def namespace():
    """The names of kernel text; `cuda` is exchanged while a kernel runs."""
    from ml_dtypes import bfloat16

    functions, names = Functions(), dict(NAMES)

    def exchange(x, other):
        here = names["cuda"]
        slots = here.shared.array(1024, np.dtype(object))  # of all dtypes
        thread = here.threadIdx.x
        lane = thread % 32
        slots[thread] = x
        here.syncthreads()
        there = other(lane)
        found = slots[thread - lane + there if 0 <= there < 32 else thread]
        here.syncthreads()
        return type(x)(found)

    shuffles = {
        "shuffle_idx": lambda x, lane: exchange(x, lambda own: int(lane) % 32),
        "shuffle_up": lambda x, by: exchange(x, lambda own: own - int(by)),
        "shuffle_down": lambda x, by: exchange(x, lambda own: own + int(by)),
        "shuffle_xor": lambda x, mask: exchange(x, lambda own: own ^ int(mask)),
    }

    def shared(kind):
        def pointer(offset):
            whole = names["cuda"].shared.array(0, np.dtype(np.uint8))
            return Pointer(whole.ctypes.data + int(offset), kind)
        return pointer

    names |= {
        "cuda": cuda, "math": functions, "libdevice": functions,
        **{f"load{n}": _load(n) for n in (1, 2, 4, 8, 16)},
        **{f"store{n}": _store(n) for n in (1, 2, 4, 8, 16)},
        **{f"copy_async{n}": _copy(n) for n in (1, 2, 4, 8, 16)},
        **{f"near{n}": _load(n) for n in (1, 2, 4, 8, 16)},
        **{f"until_aligned{n}": _until_aligned(n) for n in (1, 2, 4, 8, 16)},
        **{f"{name}{n}": _stream(n) for n in (1, 2, 4, 8, 16)
           for name in ("stream", "stream_near", "stream_last", "load_if", "load_last",
                        "load_first")},
        **{f"shared_{np.dtype(k).name}": shared(k) for k in "bhilBHILfdFD"},
        "between": lambda p, q: np.int64(q.address - p.address),
        "copy_wait": lambda: None, **shuffles, **fetches(), "atomic_add": add,
        "atomic_add_f16": add_half(np.float16), "atomic_add_bf16": add_half(bfloat16),
        "divide_rough": np.divide, "sqrt_rough": np.sqrt,
        "divide_near": np.divide,
        "divide_nearly": np.divide, "column_is": lambda a, b: bool(a == b),
        "exp_rough": np.exp, "sigmoid_rough": lambda x: 1/(1 + np.exp(-x)),
        "sigmoid": lambda x: 1/(1 + np.exp(-x)),
        "erfc_rough": functions.erfc,
        **{name: OPS[op] for (op, _), name in DIVISION_CALLS.items()},
        "select": lambda c, a, b: a if c else b, "maximum": np.maximum,
        "minimum": np.minimum, "divide": lambda a, b: np.int64(a) // np.int64(b),
        "inverse": lambda b: np.int64(0xffffffff // int(b)), "uncounted": np.int64,
        "divide_short": _divide_short, "short": lambda a: np.int64(np.int32(a)),
        **{f"{name}_local": partial(np.empty, dtype=dtype)
           for name, dtype in LOCALS.items()},
        **{f"{name}_pairs_{kind}": _pairs(function, dtype)
           for kind, dtype in (("f16", np.float16), ("bf16", bfloat16))
           for name, function in (("max", np.maximum), ("min", np.minimum))},
        "f16_to_f32": lambda x: value(np.float16, x),
        "f16_again": lambda x: value(np.float16, x),
        "bf16_again": lambda x: value(bfloat16, x),
        "f32_to_f16": lambda x: bits(np.float16, x),
        "bf16_to_f32": lambda x: value(bfloat16, x),
        "f32_to_bf16": lambda x: bits(bfloat16, x),
        "f64_to_f16": lambda x: bits(np.float16, x),
        **{f"{kind}_to_bf16": lambda x: bits(bfloat16, _to_odd(np.asarray(x)))
           for kind in ("f64", "i64", "u64")},
    }
    names |= simulated_mma.namespace(names)
    return names


class SimulatedDevice:
    """Two multiprocessors, so that small arrays are cut into several chunks."""

    ordinal, address, processors, arch = 0, 0, 2, (8, 0)  # no wgmma
    label, name, cuda = "cuda:0", "simulated", (13, 0)
    shared_limit, shared_total, cache_size = 8192, 16384, 512

    @contextmanager
    def current(self):
        yield

    @contextmanager
    def workspace(self, size, stream):
        notes = NOTES.get()
        if notes is not None and notes.memory is not None:
            yield notes.memory.workspace(size)
            return
        memory = np.full(size + 256, 0xA5, np.uint8)  # not initialised
        yield (memory.ctypes.data + 255) & -256

    def allocate(self, size, stream):
        KEPT_BESIDE.append(np.full(size + 256, 0xA5, np.uint8))
        return (KEPT_BESIDE[-1].ctypes.data + 255) & -256

    def drop(self, address, busy=False):
        pass

    def synchronize(self):
        pass


#: Memory of workspaces that nobody gives back.
KEPT_BESIDE: list[np.ndarray] = []
LAUNCHED: list[str] = []


def _launch(self, device, stream, blocks, values, shared=0, block=None):
    grid = (blocks, 1, 1) if isinstance(blocks, int) else blocks
    threads = block or (self.kernel.threads, 1, 1)
    notes = NOTES.get()
    if notes is not None:
        notes.append(Launched(self, grid, threads, tuple(values), shared))
        return
    _run(self.kernel, grid, threads, values, shared)


def _run(kernel, grid, block, values, shared):
    threads = tuple(map(int, block))
    assert np.prod(threads) <= THREADS, f"{kernel.name} has {threads} threads"
    assert len(values) == len(kernel.parameters)
    assert not overwritten_parameters(kernel), kernel.text
    names = namespace()
    exec(compile(kernel.text, f"<{kernel.name} {id(kernel)}>", "exec"), names)
    arguments = [Pointer(v, p[1:]) if p.startswith("*") else np.dtype(p).type(v)
                 for p, v in zip(kernel.parameters, values, strict=True)]
    LAUNCHED.append(kernel.name)
    with np.errstate(all="ignore"):
        cuda.jit(names[kernel.name])[tuple(map(int, grid)), threads, 0, int(shared)](
            *arguments)
    assert not any(memory[:4*scratch.TICKETS].any() for memory in KEPT)


def _bind(self, device, launched):
    def start(addresses, scalars, stream):
        values = [scalars[v.position] if isinstance(v, NumberOf) else v
                  for v in launched.values[launched.pointers:]]
        _run(self.kernel, launched.grid, launched.block, (*addresses, *values),
             launched.shared)

    return start


KEPT: list[np.ndarray] = []


def _grown(self, old, size, stream):
    """Counters that are 0, and memory that is not initialised."""
    memory = np.full(4*scratch.TICKETS + size, 0xA5, np.uint8)
    memory[:4*scratch.TICKETS] = 0
    KEPT.append(memory)
    return scratch._Block(memory.ctypes.data, size)


def _clear(address, value, size, stream):
    ctypes.memset(address, value, size)


class SimulatedBackend(CudaBackend):
    """Takes NumPy arrays for device arrays."""

    name = "simulated"

    def sequence(self, calls):
        return None  # no graphs

    def available(self):
        return None

    def devices(self):
        return ("cpu",)

    def owns(self, device):
        return device == "cpu"

    def empty(self, shape, dtype, device):
        return np.empty(shape, dtype)

    def from_host(self, array, device):
        return np.array(array)

    def to_host(self, array):
        return np.array(array)


def simulate():
    """Put the simulator into the device's place, in this process, for good."""
    turns.take_turns()
    driver._devices[0] = SimulatedDevice()
    launch.Program.launch, launch.Program.bind = _launch, _bind
    scratch.Scratch._grown = _grown
    workspaces.check = lambda code: code
    workspaces.cu = lambda: SimpleNamespace(cuMemsetD8Async=_clear)
    map_.THREADS = map_.TILE_THREADS = reduce.BLOCK = row.BLOCK = THREADS
    map_rows.THREADS = map_rows.LANES = THREADS
    row_gathers.THREADS = row_gathers.LANES = THREADS
    map_rows.EACH, reduce.CHUNK = 2, 64
    row.TILE = row_tiled.TILE = THREADS
    row._LANES, row._MOST_LANES = ((4, 8), (16, 32)), THREADS
    Share = row_plan.Share
    row_plan._SHARES = (Share(8, 1, 1), Share(32, 1, 1), Share(THREADS, 1, 2),
                        Share(THREADS, 1, 4, 64, THREADS))
    row_plan._SUMMED = (Share(1, 1, 1, 64, THREADS), Share(8, 1, 2, 64, THREADS),
                        Share(32, 1, 1, 64, THREADS), Share(THREADS, 1, 4, 64, 512))
    row_total.DEPTH = THREADS // row_total.LANES
    contract_general_launch.TILES = (
        Tile(16, 16, 8, 4, 4, 1, groups=4), Tile(64, 32, 8, 8, 4, 1),
        Tile(128, 8, 8, 4, 4, 1), Tile(4, 256, 4, 4, 4, 1))
    contract_pack.LEAST, contract_pack.THREADS = 1, THREADS
    contract_mma_launch.SHAPES = {
        "fma": (contract_mma_launch.Shape((1, 1), (1, 2), 8, 3, 1, 1.0),)}
    return SimulatedBackend()
