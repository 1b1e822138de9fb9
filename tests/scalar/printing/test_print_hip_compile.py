"""The text for HIP builds for AMD and NVIDIA, and float32 stays out of float64.

Variants, which ``make rocm-build`` runs for AMD: what `test_print_hip` has compiled by
g++ comes out of hipcc once more.
"""

from __future__ import annotations

import os
import re
import shutil
from functools import cache

import numpy as np
import pytest

import nbfused as nf
from nbfused.scalar.autodiff.differentiate import vjp
from nbfused.scalar.language.vocabulary import OPS
from nbfused.scalar.parse.functions import parse
from nbfused.scalar.typing.types import specialize
from nbfused.support.dtypes import DTYPES
from tests.scalar.kernels import operation
from tests.scalar.printing import test_print_hip_complex, test_print_hip_forms
from tests.scalar.printing.hip import Printed, build, source
from tests.scalar.printing.test_print_hip import APART, cases, typed

#: Each kind of integer, and all that is floating.
TABLE = ("bool", "int8", "int32", "int64", "uint16", "uint64", "float16", "bfloat16",
         "float32", "float64")
WIDE = {np.dtype("f8"), np.dtype("c16")}
#: The compilers by what they build for, and how the text of a kernel begins.
TOOLS = {
    "amd": ("hipcc", ("-O1", "--offload-arch=gfx90a", "--cuda-device-only", "-S",
                      "-Wall", "-Wextra", "-Werror",
                      "-Wno-unused-command-line-argument"),
            r"\nrun_(\w+):\s+; @run_\1\n", "_f64"),
    "nvidia": ("nvcc", ("-x", "cu", "-arch=sm_90", "-ptx"),
               r"\.entry run_(\w+)\(", r"\.f64"),
}

pytestmark = pytest.mark.variants


def gradient(op: str) -> Printed | None:
    """The derivative of an operation on float32."""
    f = operation(op)
    if op in APART or not any(OPS[op].partials) or not typed(op, "float32"):
        return None
    back = vjp(f, (True,)*len(f.params), (True,))
    dtypes = (DTYPES["float32"],)*len(back.params)
    return specialize(back, dtypes), dtypes


def exchange(dtype: str) -> Printed:
    """All that threads may do with one another's elements of a dtype."""
    d = DTYPES[dtype]

    def lanes(y, i, x):
        x = nf.shfl_xor_sync(0xffffffff, x, 1) + nf.shfl_up_sync(0xffffffff, x, 2)
        nf.syncwarp()
        y[i] = nf.shfl_down_sync(0xffffffff, x, 3) + nf.shfl_sync(0xffffffff, x, 4)
        nf.syncthreads()

    def sums(y, i, x):
        lanes(y, i, x)
        nf.atomic.add(y, i, x)

    def numbers(y, i, x):
        sums(y, i, x)
        nf.atomic.max(y, i, nf.atomic.min(y, i, x))
        nf.atomic.cas(y, i, nf.atomic.exch(y, i, x), x)

    def integers(y, i, x):
        numbers(y, i, x)
        nf.atomic.and_(y, i, nf.atomic.or_(y, i, nf.atomic.xor(y, i, x)))

    f = {"b": lanes, "c": sums, "i": integers, "u": integers}.get(d.kind, numbers)
    dtypes = (d, DTYPES["int64"], d)
    return specialize(parse(f, returns=False), dtypes), dtypes


@cache
def functions() -> dict[str, Printed]:
    """Every operation, the derivatives, atomics and shuffles, the forms and casts."""
    found: dict[str, Printed] = {}
    for op, d in cases(TABLE + test_print_hip_complex.COMPLEX):
        t = typed(op, d)
        assert t is not None
        found[f"{op}_{d}"] = t, (DTYPES[d],)*OPS[op].arity
    found |= {f"{op}_gradient": g for op in OPS if (g := gradient(op))}
    found |= {f"exchange_{d}": exchange(d) for d in DTYPES}
    return found | test_print_hip_forms.functions()


@cache
def assembly(tool: str) -> dict[str, str]:
    """What each kernel is compiled to."""
    compiler, flags, begin, _ = TOOLS[tool]
    text = source(functions())
    path = build(text, (compiler, "-std=c++17", *flags), "text.s", ".hip",
                 {**os.environ, "HIP_PLATFORM": "amd"})
    parts = re.split(begin, path.read_text())
    shutil.rmtree(path.parent)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.fixture(params=["amd", "nvidia"])
def tool(request):
    """A compiler for GPUs, if it is there."""
    if shutil.which(TOOLS[request.param][0]) is None:
        pytest.skip(f"{TOOLS[request.param][0]} is not there")
    return request.param


def test_every_function_builds(tool):
    assert set(assembly(tool)) == set(functions())


def test_float64_is_where_it_belongs(tool):
    """In no function that has none; the scan sees it in those that have."""
    pattern = re.compile(TOOLS[tool][3] + r"\b")
    wrong, seen = [], 0
    for name, body in assembly(tool).items():
        t, dtypes = functions()[name]
        found = bool(pattern.search(re.split(r"\n\.(?:weak )?func|\.visible", body)[0]))
        wide = not WIDE.isdisjoint({*t.dtypes.values(), *dtypes})
        seen += wide and found
        wrong += [name] if found and not wide else []
    assert not wrong
    assert seen > 100
