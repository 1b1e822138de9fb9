"""Skeletons: what is known is evaluated, everything else is written."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from textwrap import dedent

import pytest

from nbfused.cuda.text.skeletons import Code, skeleton
from nbfused.cuda.text.source import Source


def written(write, *known):
    """The lines that a skeleton writes."""
    out = Source("kernel")
    write(out, *known)
    _, *lines = out.kernel(1).text.splitlines()
    return dedent("\n".join(lines))


def load(out, name, place):
    out(f"{name} = load({place})")


@skeleton
def halve(out, STATE, depth):
    half = depth // 2
    while half > 0:
        for K, NAME in enumerate(STATE):
            OTHER = f"{NAME}_o"
            load(out, OTHER, half*depth)
            STATE[K] = maximum(NAME, OTHER)


def test_what_is_known_is_evaluated():
    assert written(halve, ["x", "y"], 8) == dedent("""\
        half = 4
        while half > 0:
            x_o = load(half*8)
            x = maximum(x, x_o)
            y_o = load(half*8)
            y = maximum(y, y_o)""")


@skeleton
def branches(out, kind):
    first = load_from[0] if kind == "whole" else i64(0)
    if kind == "whole" and len(kind) > 1:
        end = count
    else:
        end = chunk
        begin = i64(0)
    if first < end:
        cuda.syncthreads()
    else:
        end = 0 if end < first else first


def test_a_branch_is_decided_if_its_test_is_known():
    assert written(branches, "whole") == dedent("""\
        first = load_from[0]
        end = count
        if first < end:
            cuda.syncthreads()
        else:
            end = 0 if end < first else first""")
    assert written(branches, "part").startswith("first = i64(0)\nend = chunk\n")


@skeleton
def inner(out, place: Code, POINTER):
    POINTER[place] = place*2 - step
    return [f"{POINTER}{K}" for K in range(2)]


@skeleton
def outer(out):
    STATE = inner(out, a + b, "w")
    STATE[0] = STATE[1] - f(STATE[0])


def test_code_is_an_operand_and_a_skeleton_may_return():
    assert written(inner, "i", "w") == "w[i] = i*2 - step"
    assert written(outer) == dedent("""\
        w[a + b] = (a + b)*2 - step
        w0 = w1 - f(w0)""")


@contextmanager
@skeleton
def guarded(out, limit: Code):
    if thread < limit:
        yield
        done = True


@skeleton
def steps(out, SIZES):
    for SIZE in SIZES:
        while j + SIZE < end:
            yield [j + K for K in range(SIZE)]
            j += SIZE


@skeleton
def loops(out):
    with guarded(out, n - 1):
        for PLACES in steps(out, (2, 1)):
            use(out, PLACES)


def use(out, places):
    out(f"use({', '.join(places)})")


def test_contexts_and_generators():
    assert written(loops) == dedent("""\
        if thread < (n - 1):
            while j + 2 < end:
                use(j + 0, j + 1)
                j += 2
            while j + 1 < end:
                use(j + 0)
                j += 1
            done = True""")


def test_the_kernel_may_not_assign_to_what_is_known(tmp_path, monkeypatch):
    (tmp_path / "clashing.py").write_text(dedent("""\
        from nbfused.cuda.text.skeletons import skeleton
        @skeleton
        def clash(out, lanes):
            lanes = 3
        """))
    monkeypatch.syspath_prepend(tmp_path)
    import clashing

    with pytest.raises(SyntaxError, match="assigns to lanes"):
        clashing.clash(None, 1)


def test_skeletons_are_read_whatever_the_locale(tmp_path):
    """As on systems whose encoding is another than UTF-8."""
    script = ("import numpy as np, nbfused as nf\n"
              "from nbfused.testing.recorded_cuda import recording\n"
              "with recording() as kernels:\n"
              "    nf.ops.sum(np.zeros((5, 7), np.float32), axis=1)\n"
              "print(len(kernels))")
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False,
        env={**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0",
             "NBFUSED_CACHE_DIR": str(tmp_path), "NBFUSED_DUMP_SOURCE": str(tmp_path)})
    assert run.stdout == "1\n", run.stderr
