"""Functions printed for HIP, built by g++ into a library and run over arrays."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from nbfused.rocm.build.kernel import HIP
from nbfused.scalar.ir.nodes import raw_params
from nbfused.scalar.printing.hip import (
    Raw,
    cast,
    decode,
    encode,
    statements,
    storage_type,
)
from nbfused.scalar.typing.promotion import compute_dtype
from nbfused.scalar.typing.types import Typed
from tests.scalar.kernels import storage

#: A function and the dtypes of what it is given.
Printed = tuple[Typed, tuple[np.dtype, ...]]
#: GCC takes a loop of min(n, 32) - 1 rounds for one of 32.
FLAGS = ("-std=c++17", "-O1", "-fPIC", "-shared", "-ffp-contract=off",
         "-fno-strict-aliasing", "-Wall", "-Wextra", "-Werror", "-DNBF_EMULATION",
         "-Wno-aggressive-loop-optimizations")

needs_gxx = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not there")


def entry(name: str, typed: Typed, dtypes: Sequence[np.dtype]) -> str:
    """A kernel that calls a function for each of n elements, on one thread.

    Arrays that the function indexes have one axis.
    """
    raw = raw_params(typed.function)
    arguments: dict[str, str | Raw] = {}
    for k, (p, d) in enumerate(zip(typed.function.params, dtypes, strict=True)):
        pointer = f"static_cast<{storage_type(d)} *>(x[{k}])"
        arguments[p] = Raw(pointer, ("1",), d) if p in raw else \
            decode(d, f"{pointer}[i]")
    results = [f"r{k}" for k in range(len(typed.results))]
    body = statements(typed, arguments, results, prefix="v_")
    for k, (r, d) in enumerate(zip(results, typed.results, strict=True)):
        stored = encode(d, cast(compute_dtype(d), d, r))
        body.append(f"static_cast<{storage_type(d)} *>(y[{k}])[i] = {stored};")
    lines = "\n".join(f"    {line}" for line in body)
    return (f'extern "C" __global__ void run_{name}(\n    [[maybe_unused]] void *const '
            f"*x, [[maybe_unused]] void *const *y, int64_t n) {{\n"
            f"  for (int64_t i = 0; i < n; ++i) {{\n{lines}\n  }}\n}}\n")


def source(functions: Mapping[str, Printed]) -> str:
    """A translation unit of all of them."""
    return '#include "kernel.h"\n' + "".join(
        entry(name, *printed) for name, printed in functions.items())


def build(text: str, command: Sequence[str], output: str, suffix: str = ".cpp",
          environment: Mapping[str, str] | None = None) -> Path:
    """What a compiler makes of `text`, in a folder that is not removed."""
    folder = Path(tempfile.mkdtemp(prefix="print_hip"))
    (folder / f"text{suffix}").write_text(text)
    done = subprocess.run(
        [*command, "-I", str(HIP), str(folder / f"text{suffix}"), "-o",
         str(folder / output)], capture_output=True, text=True, check=False,
        env=environment)
    assert done.returncode == 0, done.stderr[:4000]
    return folder / output


class Library:
    """Functions by name, called on arrays."""

    def __init__(self, functions: Mapping[str, Printed]) -> None:
        self.functions = functions
        path = build(source(functions), ("g++", *FLAGS), "text.so")
        self.library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        shutil.rmtree(path.parent)

    def __call__(self, name: str, *args: np.ndarray) -> tuple[np.ndarray, ...]:
        """The results, as they are stored."""
        typed, dtypes = self.functions[name]
        n = len(args[0])
        stored = [np.ascontiguousarray(a).view(storage(d))
                  for a, d in zip(args, dtypes, strict=True)]
        outs = [np.empty(n, storage(d)) for d in typed.results]
        run = self.library[f"run_{name}"]
        run(addresses(stored), addresses(outs), ctypes.c_int64(n))
        return tuple(o.view(d) for o, d in zip(outs, typed.results, strict=True))


def addresses(arrays: Sequence[np.ndarray]) -> ctypes.Array[ctypes.c_void_p]:
    """An array of pointers."""
    return (ctypes.c_void_p*len(arrays))(*(a.ctypes.data for a in arrays))
