"""What the registry asks of the backend."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from nbfused.backend import PROTOCOL_VERSION, Signature
from nbfused.cpu import CpuBackend
from nbfused.specs import View


def test_protocol():
    backend = CpuBackend()
    assert backend.name == "cpu"
    assert backend.protocol == PROTOCOL_VERSION
    assert backend.available() is None
    assert backend.devices() == ("cpu",)


def test_it_owns_the_host_only():
    backend = CpuBackend()
    assert backend.owns("cpu")
    assert not backend.owns("cuda:0")


def test_arrays_are_copies():
    backend = CpuBackend()
    host = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    there = backend.from_host(host, "cpu")
    back = backend.to_host(there)
    for copy in (there, back):
        assert np.array_equal(copy, host)
        assert not np.shares_memory(copy, host)
    assert not np.shares_memory(there, back)
    assert backend.empty((2, 3), np.dtype("f4"), "cpu").shape == (2, 3)
    backend.synchronize()


def test_the_import_is_cheap():
    text = ("import sys; import nbfused.cpu; "
            "print(sorted({'numba', 'llvmlite', 'scipy'} & set(sys.modules)))")
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True,
                          check=True, env={"PATH": ""}, timeout=60)
    assert done.stdout.strip() == "[]"


@pytest.mark.variants
def test_a_warm_process_imports_no_numba(tmp_path):
    """Three kernels, and the machine code of direct calls, which they share."""
    text = ("import sys, numpy as np; import nbfused as nf; x = np.ones((4, 5)); "
            "nf.ops.swish(x); nf.ops.sum(x); nf.ops.softmax(x); "
            "print(nf.cache.stats().compilations, 'numba' in sys.modules)")
    said = [subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True,
        env={**os.environ, "NBFUSED_CACHE_DIR": str(tmp_path)}, timeout=120).stdout
        for _ in range(2)]
    (cold, numba), warm = said[0].split(), said[1].split()
    assert int(cold) >= 3
    assert (numba, warm) == ("True", ["0", "False"])


def test_views_have_no_kernel():
    with pytest.raises(TypeError):
        CpuBackend().build(View("reshape", (2,)), Signature((), (), (), ()))
