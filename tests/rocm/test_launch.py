"""Packing, grids, streams, failures of launches."""

from __future__ import annotations

import ctypes
import threading

import numpy as np
import pytest

import nbfused as nf
from nbfused.config import config
from nbfused.errors import BarrierError, KernelTypeError, RangeError
from nbfused.rocm.build.kernel import Kernel
from nbfused.rocm.build.toolchain import NVIDIA, find
from nbfused.rocm.runtime.device import Device, HipError, device
from nbfused.rocm.runtime.launch import Program
from tests.refusal import refused
from tests.rocm.emulating import emulating

#: How elements of each dtype are stored.
STORED = {"int8": "int8_t", "uint16": "uint16_t", "int64": "int64_t",
          "uint64": "uint64_t", "float32": "float", "float64": "double"}


def storing(*parameters):
    """A kernel that writes its numbers, as doubles, one after the other."""
    word, lines = 1, []
    for p in parameters:
        parts = 2 if p.startswith("complex") else 1
        kind = "float" if p == "complex64" else "double" if parts == 2 else STORED[p]
        for _ in range(parts):
            lines.append(f"y[{len(lines)}] = static_cast<double>("
                         f"w.template number<{kind}>({word}));")
            word += 1
    body = "\n    ".join(lines)
    text = f"""struct S {{
  template <class W> NBF_DEVICE void run(const W &w) {{
    double *y = w.template pointer<double>(0);
    {body}
  }}
}};
NBF_KERNEL({word}, 64, S::run(w))
"""
    return Kernel("storing", "map", text, ("*float64", *parameters), 64)


#: Counts its threads and notes the last one's place.
COUNTING = Kernel("counting", "map", """struct S {
  template <class W> NBF_DEVICE void run(const W &w) {
    nbf::fetch_add(w.template pointer<int64_t>(0), int64_t(1));
    int64_t *const p = w.template pointer<int64_t>(0);
    if (blockIdx.x + 1 == gridDim.x && blockIdx.y + 1 == gridDim.y &&
        blockIdx.z + 1 == gridDim.z && threadIdx.x + 1 == blockDim.x &&
        threadIdx.y + 1 == blockDim.y && threadIdx.z + 1 == blockDim.z) {
      p[1] = gridDim.x; p[2] = gridDim.y; p[3] = gridDim.z;
      p[4] = blockDim.x; p[5] = blockDim.y; p[6] = blockDim.z;
    }
  }
};
NBF_KERNEL(1, 64, S::run(w))
""", ("*int64",), 64)


def stored(kernel, *values, count=None):
    y = nf.zeros(count or len(values), "float64", device="rocm")
    Program(kernel).launch(device(0), 0, 1, (y.pointer, *values))
    return nf.to_numpy(y).tolist()


# --- arguments


def test_numbers_arrive_as_the_kernel_reads_them():
    kernel = storing("int64", "float32", "int8", "uint16", "float64")
    assert stored(kernel, -2, 1.5, -128, 65535, 1e300) == [-2, 1.5, -128, 65535, 1e300]


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_numbers_are_two_words(dtype):
    assert stored(storing(dtype, "int64"), 1 - 2j, 7, count=3) == [1, -2, 7]


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_beyond_float32_is_infinite(dtype):
    assert stored(storing(dtype), 1e300, count=2)[0] == np.inf


def test_a_number_that_does_not_fit_is_named():
    with refused(KernelTypeError, "storing", "300", "int8", "in range"):
        stored(storing("int8"), 300)


# --- grids


def counted(blocks, block=None):
    y = nf.zeros(7, "int64", device="rocm")
    Program(COUNTING).launch(device(0), 0, blocks, (y.pointer,), block=block)
    return nf.to_numpy(y).tolist()


def test_grids_and_blocks():
    assert counted(3) == [192, 3, 1, 1, 64, 1, 1]
    assert counted((2, 3, 4), (5, 2, 3)) == [720, 2, 3, 4, 5, 2, 3]


def test_more_threads_than_hip_counts_are_refused():
    program = Program(COUNTING)
    y = nf.zeros(7, "int64", device="rocm")
    with refused(RangeError, "counting", "2**32", "smaller grid"):
        program.launch(device(0), 0, 2**26, (y.pointer,))
    with refused(RangeError, "2**32"):
        program.launch(device(0), 0, (2**22, 1, 1), (y.pointer,), block=(1024, 1, 1))
    assert nf.to_numpy(y)[0] == 0


def test_what_the_runtime_refuses_has_its_name_and_the_kernels():
    y = nf.zeros(7, "int64", device="rocm")
    with pytest.raises(HipError, match="Invalid") as caught:
        Program(COUNTING).launch(device(0), 0, 1, (y.pointer,), block=(2048, 1, 1))
    assert caught.value.code == (1 if find().name == NVIDIA else 9)
    assert "kernel 'counting'" in caught.value.__notes__[0]
    assert counted(1)[0] == 64  # and nothing is left of it


def test_attributes():
    found = Program(COUNTING).attributes(device(0))
    assert set(found) == {"num_regs", "shared_size_bytes", "local_size_bytes",
                          "const_size_bytes", "max_threads_per_block"}
    assert found["max_threads_per_block"] >= 64
    assert found["local_size_bytes"] == 0


def test_launches_are_traced_as_everywhere():
    x = nf.array(np.ones((4, 5), np.float32), device="rocm")
    with nf.trace_launches() as launches:
        nf.ops.sum(nf.ops.swish(x), axis=1)
    assert [(n.kind, n.backend) for n in launches] == [
        ("Map", "rocm"), ("Reduce", "rocm")]


def test_threads_launch_at_the_same_time():
    """One program packs into one buffer; a launch must not see another one's words."""
    program = Program(storing("int64"))
    wrong = []

    def work(number):
        y = nf.zeros(1, "float64", device="rocm")
        for k in range(50):
            program.launch(device(0), 0, 1, (y.pointer, number*1000 + k))
            if nf.to_numpy(y)[0] != number*1000 + k:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# --- barriers


@nf.rawkernel
def divergent(y):
    i = nf.grid(1)
    if i < 10:
        nf.syncthreads()
    y[i] = i


def test_a_barrier_that_some_threads_never_reach():
    if config.rocm_emulate != "1":
        pytest.skip("devices wait forever")
    y = nf.zeros(64, "int64", device="rocm")
    with refused(BarrierError, "divergent", "hipErrorLaunchFailure"):
        divergent((1,), (64,), (y,))
    assert nf.to_numpy(nf.ops.add(y, 1)).shape == (64,)  # the next launch goes


def test_a_child_does_not_wait_for_launches_of_other_threads():
    """A launch that is under way when a process forks is never done in the child."""
    said = emulating("""
import os, signal, threading
import nbfused as nf
from nbfused.rocm.runtime.device import Device

x, start, inside, done = nf.zeros(3), Device.start, threading.Event(), threading.Event()

def slow(*arguments):
    inside.set()
    done.wait()
    return start(*arguments)

nf.ops.exp(x)
Device.start = slow
thread = threading.Thread(target=nf.ops.exp, args=(x,))
thread.start()
inside.wait()
Device.start = start
child = os.fork()
if not child:
    signal.alarm(60)
    os._exit(int(nf.to_numpy(nf.ops.exp(x)).sum()))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
done.set()
thread.join()
""")
    assert said.strip() == "3"


# --- streams


@pytest.fixture
def streams(monkeypatch):
    """The streams that launches name; they run on the default one."""
    found, start = [], Device.start

    def started(self, entry, extents, shared, stream, words):
        found.append(stream)
        return start(self, entry, extents, shared, 0, words)

    monkeypatch.setattr(Device, "start", started)
    return found


def test_a_launch_names_its_stream(streams):
    assert counted(1)[0] == 64
    y = nf.zeros(7, "int64", device="rocm")
    Program(COUNTING).launch(device(0), 4711, 1, (y.pointer,))
    assert streams[-1] == 4711


def test_words_are_addresses_too():
    """A kernel's own memory may be anywhere in 64 bits."""
    program = Program(COUNTING)
    program._words.pack((0xFFFF_FFFF_FFFF,))
    word = ctypes.c_uint64.from_address(program._words.address)
    assert word.value == 0xFFFF_FFFF_FFFF
