"""Accesses to what is read or written once: the instructions, on each chip."""

from __future__ import annotations

import pytest

from nbfused.cuda.compile import Kernel
from tests.cuda.recorded import assembled
from tests.cuda.test_rows import needs_numba

POLICY = "createpolicy.fractional.L2::evict_first.b64"


def kernel(kind, width):
    text = "\n    ".join((
        "def once(x, y, n):", "i = i64(cuda.threadIdx.x)",
        f"a = load_once{width}(x, i*{width})",
        f"store_once{width}(y, i*{width}, a)", ""))
    return Kernel("once", text, (f"*{kind}", f"*{kind}", "int64"), 32)


@pytest.mark.parametrize(("kind", "width", "suffix"), [
    ("float32", 4, ".v4.b32"), ("uint16", 8, ".v4.b32"), ("float64", 2, ".v4.b32"),
    ("complex64", 2, ".v4.b32"), ("complex128", 1, ".v4.b32"), ("int8", 16, ".v4.b32"),
    ("float32", 2, ".v2.b32"), ("int64", 1, ".v2.b32"), ("uint16", 2, ".b32"),
    ("float32", 1, ".b32")])
def test_accesses_leave_the_second_cache_first(kind, width, suffix):
    needs_numba()
    code, _ = assembled(kernel(kind, width))
    assert POLICY in code
    assert f"ld.global.L1::no_allocate.L2::cache_hint{suffix} " in code
    assert f"st.global.L1::no_allocate.L2::cache_hint{suffix} " in code


@pytest.mark.parametrize(("kind", "width"), [("uint16", 1), ("int8", 2)])
def test_short_accesses_are_plain(kind, width):
    needs_numba()
    code, _ = assembled(kernel(kind, width))
    assert "cache_hint" not in code
    assert code.count("ld.global") == 1


def test_older_chips_have_no_policy():
    needs_numba()
    code, _ = assembled(kernel("float32", 4), (7, 5))
    assert "createpolicy" not in code
    assert "ld.global.L1::no_allocate.v4.b32" in code


def copying(width, name):
    text = "\n    ".join((
        "def once(x, y, n):", "i = i64(cuda.threadIdx.x)",
        "near = shared_float32(i64(0))",
        f"{name}{width}(near, i*{width}, x, i*{width})", "copy_wait()",
        "cuda.syncthreads()", "y[i] = near[31 - i]", ""))
    return Kernel("once", text, ("*float32", "*float32", "int64"), 32)


def test_copies_to_shared_memory_take_the_policy():
    needs_numba()
    code, _ = assembled(copying(4, "copy_once"))
    assert "cp.async.cg.shared.global.L2::cache_hint" in code
    code, _ = assembled(copying(4, "copy_async"))
    assert "cache_hint" not in code
