"""``python -m benchmarks.hashes``: hash every kernel that is measured or tested.

Code that is moved must leave its kernels as they were.  The kernels of each row of the
table of speed and of each check of the conformance suite are recorded, without a
device, and hashed: for CUDA their PTX, for the CPU and for ROCm the text that the
compiler is given.  Names of kernels do not count.

::

    python -m benchmarks.hashes --output before.tsv       # then move code
    python -m benchmarks.hashes --against before.tsv      # exit status 1: some differ

``--texts`` hashes CUDA's kernels before they are compiled: a minute instead of ten.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from ctypes import CFUNCTYPE, c_char_p, c_int64
from functools import partial
from math import prod
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np

import nbfused as nf
from nbfused.testing.conformance import checks

from .peers.libraries import Nbfused
from .peers.workload import Input, Workload
from .peers.workloads import workloads

__all__ = ["Line", "compare", "main", "record"]

#: Where a kernel would run, what launches it, which kernel of that it is, its hash.
Line = tuple[str, str, int, str]

#: What launches kernels, by the name that stands in the file.
Launches = dict[str, Callable[[], Any]]

#: Bytes, of which addresses of whole allocations on a GPU are multiples.
ALIGNMENT = 256

#: What the CPU's cache is said to hold.
_COMPILED = SimpleNamespace(code=b"")

ARCHS = {"sm_90a": (9, 0), "sm_80": (8, 0)}
TARGETS = (*ARCHS, "cpu", "rocm")


def _hash(text: str, name: str = "") -> str:
    """Hash a kernel's text with its name replaced by a common one."""
    if name:
        text = re.sub(rf"\b{re.escape(name)}\b", "kernel", text)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _array(given: Input, work: Workload) -> np.ndarray:
    """An array without touched memory, for kernels that do not run."""
    from ml_dtypes import bfloat16

    dtype = np.int64 if given.classes else \
        bfloat16 if work.storage == "bfloat16" else work.storage
    if not given.transposed:
        return _aligned(given.shape, np.dtype(dtype))
    *batch, rows, columns = given.shape
    return np.swapaxes(_aligned((*batch, columns, rows), np.dtype(dtype)), -1, -2)


def _aligned(shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """An array at a multiple of `ALIGNMENT` bytes, as GPUs allocate it.

    Which kernel runs may depend on it: that of 16 products with a bias did.
    """
    size = prod(shape)*dtype.itemsize
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start:start + size].view(dtype).reshape(shape)


def _rows(device: str) -> Launches:
    """Calls of the rows of the table of speed."""
    def run(work: Workload) -> None:
        arrays = [_array(given, work) for given in work.inputs]
        call = Nbfused().prepare(work, arrays, "cpu")
        assert call is not None
        call()

    return {f"{w.name}, {w.dtype}": partial(run, w) for w in workloads(device)}


def _conformance() -> Launches:
    return {str(check): check for check in checks()}


def _launched(launches: Launches, kernels: dict[str, Any],
              ) -> Iterator[tuple[str, list[Any]]]:
    """Run calls; yield the kernels that each has added to `kernels`."""
    for label, call in launches.items():
        kernels.clear()
        # The kernels do not run: what a check finds in the results is wrong.
        with (suppress(Exception), np.errstate(all="ignore"),
              warnings.catch_warnings(action="ignore")):
            call()
        yield label, list(kernels.values())


def _cuda(target: str, texts: bool, jobs: int) -> Iterator[Line]:
    from nbfused.testing.recorded_cuda import recording

    with recording(ARCHS[target]) as kernels:
        found = list(_launched(_rows("cuda") | _conformance(), kernels))
    distinct = {k.text: k for _, several in found for k in several}
    if texts:
        hashed = {text: _hash(text, k.name) for text, k in distinct.items()}
    else:
        with ProcessPoolExecutor(jobs) as pool:
            hashed = dict(zip(distinct, pool.map(
                partial(_ptx_hash, ARCHS[target]), distinct.values(), chunksize=8),
                strict=True))
    for label, several in found:
        for number, kernel in enumerate(several):
            yield target, label, number, hashed[kernel.text]


def _ptx_hash(arch: tuple[int, int], kernel: Any) -> str:
    from nbfused.cuda.runtime.compile import ptx

    return _hash(ptx(kernel, arch), kernel.name)


@contextmanager
def _cpu_texts() -> Iterator[dict[str, str]]:
    """Collect texts given to the CPU's compiler; kernels do nothing in the block."""
    from nbfused.cpu import CpuBackend
    from nbfused.cpu.contract import direct, gemm
    from nbfused.cpu.runtime import compile as compiler
    from nbfused.cpu.runtime import direct as direct_calls
    from nbfused.cpu.runtime import headers, sequence, team

    for program in (headers, sequence, team):  # of a process, and of no kernel
        program.machine_code()
    texts: dict[str, str] = {}
    nothing = CFUNCTYPE(c_int64, c_char_p, c_int64, c_int64)(lambda *words: 0)
    with ExitStack() as stack:
        for name, stand_in in (
                ("dump_source", lambda name, text: texts.setdefault(text, text)),
                ("artefacts", SimpleNamespace(digest=lambda *of: "0" * 64,
                                              get=lambda key, parse: _COMPILED)),
                ("objects", SimpleNamespace(host=tuple, unpack=None,
                                            usable=lambda found: True,
                                            link=lambda code: nothing))):
            stack.enter_context(patch.object(compiler, name, stand_in))
        # What is kept would do nothing later, too.
        stack.enter_context(patch.object(direct_calls, "possible", lambda: False))
        for module, name in ((direct, "_kernel"), (gemm, "_packer")):
            kept = getattr(module, name)
            stack.enter_context(patch.object(module, name, kept.__wrapped__))
        stack.enter_context(nf.use_backend(CpuBackend()))
        yield texts


def _cpu() -> Iterator[Line]:
    with _cpu_texts() as texts:
        for label, several in _launched(_rows("cpu") | _conformance(), texts):
            for number, text in enumerate(several):
                yield "cpu", label, number, _hash(text)


def _rocm() -> Iterator[Line]:
    from nbfused.rocm.build.ahead import RecordingDevice
    from nbfused.testing.recorded import rocm_kernels

    alike: dict[str, int] = {}
    for kernel in rocm_kernels(RecordingDevice("gfx90a")):
        number = alike[kernel.skeleton] = alike.get(kernel.skeleton, -1) + 1
        yield "rocm", kernel.skeleton, number, _hash(kernel.text, kernel.name)


def record(targets: Iterable[str], texts: bool = False, jobs: int = 1) -> list[Line]:
    """The hashes of all kernels for `targets`."""
    lines: list[Line] = []
    for target in targets:
        lines += {"cpu": _cpu, "rocm": _rocm}[target]() if target not in ARCHS else \
            _cuda(target, texts, jobs)
    return lines


def compare(before: Sequence[Line], after: Sequence[Line]) -> list[str]:
    """Lines for the kernels that were added, removed or changed."""
    old, new = ({line[:3]: line[3] for line in lines} for lines in (before, after))
    told = [(key, "gone") for key in old if key not in new]
    told += [(key, "new") for key in new if key not in old]
    told += [(key, "differs") for key in old if key in new and old[key] != new[key]]
    return [f"{target}: {label} [{number}] {what}"
            for (target, label, number), what in sorted(told)]


def _read(path: Path) -> list[Line]:
    split = (line.split("\t") for line in path.read_text().splitlines())
    return [(target, label, int(number), hashed)
            for target, label, number, hashed in split]


def main(argv: Sequence[str] | None = None) -> int:
    """Write the hashes, or compare them with a file; exit status 1 if they differ."""
    parser = argparse.ArgumentParser("benchmarks.hashes", description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--output", type=Path, help="the file to write")
    parser.add_argument("--against", type=Path, help="a file written before")
    parser.add_argument("--targets", nargs="+", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--texts", action="store_true", help="do not compile for CUDA")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args(argv)
    lines = record(asked.targets, asked.texts, asked.jobs)
    print(f"{len(lines)} kernels, {len({line[3] for line in lines})} distinct")
    if asked.output:
        asked.output.write_text("".join("\t".join(map(str, x)) + "\n" for x in lines))
    if not asked.against:
        return 0
    before = [x for x in _read(asked.against) if x[0] in asked.targets]
    told = compare(before, lines)
    print("\n".join(told or ["no kernel has changed"]))
    return int(bool(told))


if __name__ == "__main__":
    sys.exit(main())
