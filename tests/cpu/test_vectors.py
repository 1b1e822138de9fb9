"""Elementary functions stay vectors in every kind of kernel."""

from __future__ import annotations

import re

import numpy as np
import pytest

import nbfused as nf
from nbfused.cpu import map as mapping
from nbfused.cpu import reduce, row
from nbfused.cpu.contract.tile import tile_of
from nbfused.cpu.runtime import compile as compiling
from nbfused.cpu.runtime import objects
from nbfused.scalar.language import names as nb
from nbfused.scalar.parse.functions import parse
from nbfused.specs import COMBINES, Map, Out, Reduce, Row, Stage
from nbfused.specs.vjp.functions import identity
from tests.cpu.skeletons import run_map, run_reduce, run_row
from tests.variants import sampled, sampled_together

SUM, MAX = COMBINES["sum"], COMBINES["max"]
FUNCTIONS = {
    "exp": parse(lambda x: nb.exp(x)), "log": parse(lambda x: nb.log(x)),
    "tanh": parse(lambda x: nb.tanh(x)), "erf": parse(lambda x: nb.erf(x)),
    "sigmoid": parse(lambda x: nb.sigmoid(x)),
    "sin": parse(lambda x: nb.sin(x)),
    "softplus": parse(lambda x: nb.softplus(x)), "gelu": parse(lambda x: nb.erfc(-x)*x),
    "square": parse(lambda x: x*x),
}


def run(skeleton, function, x):
    if skeleton == "map":
        return run_map(Map(function, ("element",)), x)
    if skeleton == "reduce":
        spec = Reduce(function, ("element",), SUM, SUM.finish)
        return run_reduce(spec, x, axes=(1,))
    stage = Stage(("m",), function, MAX, MAX.finish)
    outs = (Out("element", parse(lambda x, m: x - m)),)
    return run_row(Row("row", ("x",), ("element",), (stage,), outs), x)


@pytest.fixture
def built(monkeypatch):
    """Text, optimised LLVM text and symbols of each kernel that is built."""
    found, emitted, emit = [], [], compiling._emit

    def recording(llvm, name):
        emitted.append(llvm)
        return emit(llvm, name)

    def build(text):
        data = compiling.compile_text(text)
        found.append((text, emitted.pop(), objects.unpack(data).symbols))
        return objects.link(objects.unpack(data).code)

    monkeypatch.setattr(compiling, "_emit", recording)
    for module in (mapping, reduce, row):
        monkeypatch.setattr(module, "build", build)
    return found


def widest(llvm, dtype):
    """Numbers in the widest vector that is multiplied or divided."""
    name = {4: "float", 8: "double"}[np.dtype(dtype).itemsize]
    return max(map(int, re.findall(rf"f(?:mul|div) <(\d+) x {name}>", llvm)), default=1)


@pytest.mark.parametrize(("skeleton", "dtype", "name"), sampled_together(
    [(skeleton, dtype, name) for skeleton in ("map", "reduce", "row")
     for dtype in ("float32", "float64") for name in FUNCTIONS],
    *(("map", "float32", name) for name in FUNCTIONS), ("map", "float64", "exp"),
    ("row", "float32", "exp"), ("row", "float32", "gelu")))
def test_no_function_leaves_the_vectors(built, name, skeleton, dtype):
    x = np.linspace(0.1, 0.9, 4000, dtype=dtype).reshape(2, 2000)
    run(skeleton, FUNCTIONS[name], x)
    text, llvm, symbols = built[0]
    least = tile_of(np.dtype(dtype).itemsize).lanes//2
    assert widest(llvm, dtype) >= least, text
    assert not symbols, text


@pytest.mark.parametrize(("name", "narrow"), [("square", True), ("exp", False)])
@pytest.mark.parametrize("skeleton", ["reduce", "row"])
def test_kernels_that_wait_for_memory_have_narrow_vectors(built, skeleton, name,
                                                          narrow):
    run(skeleton, FUNCTIONS[name], np.ones((2, 2000), np.float32))
    text, llvm, _ = built[0]
    assert ('"prefer-vector-width"="256"' in llvm) == narrow, text
    assert widest(llvm, "float32") <= (8 if narrow else 16)


def test_maxima_stay_in_registers(built):
    """A conditional store would go through memory in every step."""
    spec = Reduce(identity(), ("element",), MAX, MAX.finish)
    x = np.zeros((2, 3000), np.float32)
    run_reduce(spec, x, axes=(1,))
    _, llvm, _ = built[0]
    assert "llvm.masked.store" not in llvm
    assert "memcheck" not in llvm


@pytest.mark.parametrize("name", ["exp", "sin"])
def test_elements_of_any_stride_are_vectors(name, built):
    x = np.random.default_rng(0).standard_normal((40, 300)).astype("f4")[:, ::3]
    got = run_map(Map(FUNCTIONS[name], ("element",)), x)
    assert np.allclose(got, getattr(np, name)(x), rtol=1e-5, atol=1e-6)
    (_, llvm, _), = built
    assert "llvm.masked.gather" in llvm or tile_of(4).lanes < 16
    # What LLVM assumes of a stride that it can see.
    assert "ident.check" not in llvm


@pytest.mark.parametrize("name", sampled(
    ["exp", "log", "tanh", "erf", "sigmoid", "softplus", "lgamma", "fmod", "atan2"],
    "exp", "sigmoid", "fmod"))
def test_strided_halves_are_vectors_and_nothing_is_said_on_the_terminal(
        built, capfd, name):
    """LLVM warns of loops that it is told to vectorise and cannot."""
    two = name in ("fmod", "atan2")
    operation = getattr(nb, name)
    function = parse((lambda x, y: operation(x, y)*nb.exp(y)) if two else
                     (lambda x, y: operation(x)*y))
    x = (np.arange(3.0*210).reshape(3, 210) % 7/8 + 0.25).astype(np.float16)[:, ::3]
    found = run_map(Map(function, ("element", "element")), x, x)
    wide = run_map(Map(function, ("element", "element")), *2*(np.float32(x),))
    np.testing.assert_allclose(np.float32(found), wide, rtol=2e-3)
    assert capfd.readouterr() == ("", "")
    marked = [text for text, *_ in built if "masked_vectors_parallel_for" in text]
    assert len(marked) == (name != "lgamma")


@pytest.mark.parametrize("name", ["asinh", "lgamma"])
@pytest.mark.parametrize("skeleton", ["reduce", "row"])
def test_functions_of_the_c_library_are_folded_without_a_word(skeleton, name, capfd):
    operation, x = getattr(nb, name), np.linspace(0.5, 3.0, 400).reshape(2, 200)
    found = run(skeleton, parse(lambda x: operation(x)), x)
    y = operation(x)
    expected = y.sum(1) if skeleton == "reduce" else x - y.max(1, keepdims=True)
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-14)
    assert capfd.readouterr() == ("", "")


def test_strided_halves_beside_arrays_that_are_indexed_say_nothing_either(built, capfd):
    """LLVM has no vectors of an index that is read and of checks that it is inside."""
    kernel = nf.ElementwiseKernel("raw float32 x, float16 y, int64 j", "float32 z",
                                  "z = x[j] + exp((float)y)", "indexed_beside_halves")
    j = np.arange(7*150).reshape(7, 150)
    y = (j % 7/np.float16(8)).astype(np.float16).repeat(2, 1)[:, ::2]
    x = np.arange(1050, dtype=np.float32)
    np.testing.assert_allclose(kernel(x, y, j), j + np.exp(np.float32(y)), rtol=1e-6)
    assert capfd.readouterr() == ("", "")
    assert built


@pytest.mark.parametrize("op", ["floordiv", "mod"])
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint32"])
def test_divisions_of_integers_are_vectors(built, op, dtype):
    function = {"floordiv": parse(lambda x, y: x//y), "mod": parse(lambda x, y: x % y)}
    x, y = (np.arange(4000, dtype=dtype) | np.dtype(dtype).type(1) for _ in range(2))
    run_map(Map(function[op], ("element", "element")), x, y)
    llvm = built[0][1]
    assert not re.search(r"= [su](?:div|rem) i(?:8|16|32) ", llvm)
    assert re.search(r"= fdiv <\d+ x (?:float|double)>", llvm)
