"""Random C bodies give what a C++ compiler makes of them.

``NBFUSED_FUZZ=400`` runs as many; ``NBFUSED_FUZZ_SEED=60`` begins with that one.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess

import numpy as np
import pytest

import nbfused as nf
from nbfused.kernels import ElementwiseKernel
from tests.kernels.cupy.c_programs import PREAMBLE, Program

COUNT = int(os.environ.get("NBFUSED_FUZZ", "12"))
FIRST = int(os.environ.get("NBFUSED_FUZZ_SEED", "0"))
BODIES = {seed: Program(seed).body() for seed in range(FIRST, FIRST + COUNT)}
SHIM = """#include <algorithm>
#include <cmath>
#define __device__
#define __constant__ static
using std::max;
static int __popc(unsigned v) { return __builtin_popcount(v); }
static int __float_as_int(float x) { int y; __builtin_memcpy(&y, &x, 4); return y; }
static float __int_as_float(int x) { float y; __builtin_memcpy(&y, &x, 4); return y; }
using std::frexp; using std::ldexp;
static int __clz(unsigned v) { return v ? __builtin_clz(v) : 32; }
"""
ENTRY = """
static void b{0}(const float x, const int j, const unsigned char k, double& z) {{ {1} }}
extern "C" void k{0}(long long n, const float* x, const int* j, const unsigned char* k,
                     double* z) {{
    for (long long i = 0; i < n; i++) b{0}(x[i], j[i], k[i], z[i]);
}}
"""

RNG = np.random.default_rng(0)
X = np.round(RNG.uniform(-3, 3, 64), 2).astype(np.float32)
J = RNG.integers(-100, 100, 64).astype(np.int32)
K = RNG.integers(0, 255, 64).astype(np.uint8)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Every body as a function in C++."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler to compare with")
    folder = tmp_path_factory.mktemp("c")
    (folder / "k.cpp").write_text(SHIM + PREAMBLE + "".join(
        ENTRY.format(*b) for b in BODIES.items()))
    subprocess.run([compiler, "-w", "-std=c++17", "-fwrapv", "-ffp-contract=off",
                    "-shared", "-fPIC", "-o", folder / "k.so", folder / "k.cpp"],
                   check=True)
    return ctypes.CDLL(str(folder / "k.so"))


@pytest.mark.parametrize("seed", BODIES)
def test_random_body_as_in_cpp(seed, library, device):
    expected = np.zeros(64)
    pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in (X, J, K, expected)]
    getattr(library, f"k{seed}")(ctypes.c_longlong(64), *pointers)
    kernel = ElementwiseKernel("float32 x, int32 j, uint8 k", "float64 z", BODIES[seed],
                               f"body{seed}", preamble=PREAMBLE)
    found = kernel(*(nf.array(a, device=device) for a in (X, J, K)))
    np.testing.assert_allclose(nf.to_numpy(found), expected, rtol=1e-5, atol=1e-5,
                               err_msg=BODIES[seed])
