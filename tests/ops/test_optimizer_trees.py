"""Optimiser steps of trees of parameters, against `torch.optim` where it is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pytest

import nbfused as nf
from nbfused.autograd.updates import native
from nbfused.dispatch import together
from nbfused.errors import KernelTypeError, OverlapError, ReadOnlyError, ShapeError
from nbfused.support.trees import flatten, map_tree

pytestmark = [pytest.mark.interpreted,
              pytest.mark.filterwarnings("ignore:fuse.*decorated again")]


class Pair(NamedTuple):
    w: Any
    b: Any


@dataclass
class Layer:
    w: Any
    b: Any


def _drawn(seed: int, dtypes: tuple[str, str]) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=s).astype(d) for s, d in (
        ((4, 3), dtypes[0]), ((3,), dtypes[1]), ((5,), dtypes[0]), ((), dtypes[1]))]


TREES = {
    "dict": lambda a, b, c, d: {"w": a, "b": {"x": b, "y": c}, "s": d},
    "list": lambda a, b, c, d: [a, [b, c], d],
    "tuple": lambda a, b, c, d: (a, (b,), (c, d)),
    "named tuple": lambda a, b, c, d: Pair(Pair(a, b), Pair(c, d)),
    "dataclass": lambda a, b, c, d: {"one": Layer(a, b), "two": Layer(c, d)},
}
DTYPES = {"float64": ("f8", "f8"), "float32": ("f4", "f4"), "mixed": ("f8", "f4")}
RTOL = {"float64": 1e-12, "float32": 2e-5, "mixed": 2e-5}
#: What takes a step with our names, the options, and the class of PyTorch with its own.
OPTIMIZERS = {
    "adam": ("adam", {"decoupled": False, "weight_decay": 0.1}, "Adam",
             {"weight_decay": 0.1}),
    "adamw": ("adam", {"weight_decay": 0.1, "beta1": 0.8, "eps": 1e-6}, "AdamW",
              {"weight_decay": 0.1, "betas": (0.8, 0.999), "eps": 1e-6}),
    "sgd": ("sgd", {"weight_decay": 0.1}, "SGD", {"weight_decay": 0.1}),
    "momentum": ("momentum", {"momentum": 0.9}, "SGD", {"momentum": 0.9}),
    "nesterov": ("momentum", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
                 "SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
}
MAX_NORM = 1.5


def _step(kind, params, grads, state, lr, count, options, clip=True):
    norm = nf.ops.clip_by_global_norm(grads, MAX_NORM) if clip else None
    if kind == "adam":
        nf.ops.adam_step(params, grads, *state, lr=lr, step=count, **options)
    elif kind == "sgd":
        nf.ops.sgd_step(params, grads, lr=lr, **options)
    else:
        nf.ops.sgd_step(params, grads, state[0], lr=lr, **options)
    return norm


def _expected(name, dtypes, rates):
    torch = pytest.importorskip("torch")
    params = [torch.nn.Parameter(torch.from_numpy(np.array(x)))
              for x in _drawn(0, dtypes)]
    made = getattr(torch.optim, OPTIMIZERS[name][2])(params, lr=1.0,
                                                     **OPTIMIZERS[name][3])
    norms = []
    for count, rate in enumerate(rates, 1):
        for p, g in zip(params, _drawn(count, dtypes), strict=True):
            p.grad = torch.from_numpy(np.array(g))
        norms.append(float(torch.nn.utils.clip_grad_norm_(params, MAX_NORM)))
        made.param_groups[0]["lr"] = rate
        made.step()
    return norms, [p.detach().numpy() for p in params]


def _taken(name, dtypes, rates, tree, wrap, step):
    kind, options = OPTIMIZERS[name][:2]
    params = tree(*map(wrap, _drawn(0, dtypes)))
    state = [map_tree(params, nf.zeros_like) for _ in range(2)]
    norms = [step(kind, params, tree(*map(wrap, _drawn(count, dtypes))), state, rate,
                  count, options) for count, rate in enumerate(rates, 1)]
    return ([float(nf.to_numpy(n)) for n in norms],
            [nf.to_numpy(native(x)) for x in flatten(params)[0]])


RATES = (0.1, 0.05, 0.2, 0.1)


def _check(found, expected, rtol):
    np.testing.assert_allclose(found[0], expected[0], rtol=rtol)
    for a, b in zip(found[1], expected[1], strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("dtypes", DTYPES)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_clipping_and_steps_are_those_of_torch(name, dtypes, device):
    found = _taken(name, DTYPES[dtypes], RATES, TREES["dict"],
                   lambda x: nf.array(x, device=device), _step)
    _check(found, _expected(name, DTYPES[dtypes], RATES), RTOL[dtypes])


@pytest.mark.parametrize("tree", TREES)
def test_any_tree(tree):
    found = _taken("adamw", DTYPES["mixed"], RATES, TREES[tree], np.array, _step)
    _check(found, _expected("adamw", DTYPES["mixed"], RATES), RTOL["mixed"])


@pytest.mark.parametrize("wrap", ["variable", "torch", "parameter"])
def test_arrays_of_other_libraries(wrap):
    torch = pytest.importorskip("torch")
    made = {"variable": lambda x: nf.Variable(np.array(x), requires_grad=True),
            "torch": lambda x: torch.from_numpy(np.array(x)),
            "parameter": lambda x: torch.nn.Parameter(torch.from_numpy(np.array(x)))}

    def step(kind, params, grads, state, *rest):
        plain = [map_tree(x, lambda leaf: leaf.detach()) for x in (grads, *state)]
        return _step(kind, params, plain[0], plain[1:], *rest)

    found = _taken("adamw", DTYPES["float64"], RATES, TREES["list"], made[wrap], step)
    _check(found, _expected("adamw", DTYPES["float64"], RATES), 1e-12)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_inside_of_fuse(name, device):
    kind, options = OPTIMIZERS[name][:2]

    def inside(params, grads, state, lr, count):
        return _step(kind, params, grads, state, lr, count, options)

    fused = nf.fuse(inside)
    found = _taken(name, DTYPES["float32"], RATES, TREES["dict"],
                   lambda x: nf.array(x, device=device),
                   lambda _, *args: fused(*args[:-1]))
    _check(found, _expected(name, DTYPES["float32"], RATES), RTOL["float32"])
    assert fused.cache_info().misses == 1  # neither for a rate nor for a step


def _trained(step, count):
    rng = np.random.default_rng(0)
    params = {"w": rng.normal(size=(8, 6)), "b": np.zeros(6),
              "out": [rng.normal(size=(6, 2)), np.zeros(2)]}
    state = [map_tree(params, np.zeros_like) for _ in range(2)]
    x, y = rng.normal(size=(16, 8)), rng.normal(size=(16, 2))
    values = [step(params, state, x, y, 0.1 / k, k) for k in range(1, count)]
    return [float(v) for v in values], flatten(params)[0]


def _loss(params, x, y):
    hidden = nf.ops.tanh(nf.ops.linear(x, params["w"], params["b"]))
    return ((nf.ops.linear(hidden, *params["out"]) - y) ** 2).mean()


def _training_step(params, state, x, y, lr, count):
    value, grads = nf.value_and_grad(_loss)(params, x, y)
    nf.ops.clip_by_global_norm(grads, 0.5)
    nf.ops.adam_step(params, grads, *state, lr=lr, step=count, weight_decay=0.01)
    return value


def test_a_training_step_is_one_plan():
    fused = nf.fuse(_training_step)
    found, expected = _trained(fused, 7), _trained(_training_step, 7)
    _check(found, expected, 1e-9)
    assert fused.cache_info().misses == 1


def _trees(*shapes):
    return [{"w": np.ones(s), "b": [np.ones(2)]} for s in shapes]


@pytest.mark.compiled
def test_a_step_of_a_tree_is_one_start(device):
    trees = [map_tree(t, lambda x: nf.array(x, device=device)) for t in _trees(
        3, 3, 3, 3)]
    for count in (1, 2):
        nf.ops.adam_step(*trees, step=count)
    backend = nf.registry.backends.registry.backend_for(device, "x")
    if getattr(backend, "sequence", None) is None:
        pytest.skip(f"{backend.name} starts launches one by one")
    starts = []
    own = together._Prepared.start

    def start(self, pointers, numbers):
        assert self.sequence is not None
        starts.append(self)
        with patch.object(type(self.steps[0].call), "launch",
                          side_effect=AssertionError):
            return own(self, pointers, numbers)

    with patch.object(together._Prepared, "start", start), \
            nf.trace_launches() as launches:
        nf.ops.adam_step(*trees, step=3, lr=0.5)
    assert len(starts) == 1
    assert len(launches) == 2  # a kernel for each leaf, which are started as one


def test_leaves_that_are_one_array_are_updated_twice():
    p = np.ones(3)
    for _ in range(3):
        nf.ops.sgd_step([p, p], [np.ones(3), np.ones(3)], lr=0.25)
    np.testing.assert_array_equal(p, -0.5)


def test_prepared_for_equal_arrays_and_called_with_others():
    p, q, g = np.ones(3), np.ones(3), np.ones(3)
    for _ in range(2):
        nf.ops.sgd_step([p, p], [g, g], lr=0.25)
    nf.ops.sgd_step([p, q], [g, g], lr=0.25)
    np.testing.assert_array_equal(p, -0.25)
    np.testing.assert_array_equal(q, 0.75)


def test_nothing_is_written_where_one_leaf_does_not_fit():
    memory = np.ones(7)
    p, g = [np.ones(3), memory[:4]], [np.ones(3), np.ones(4)]
    for _ in range(2):
        nf.ops.sgd_step(p, g, lr=0.5)
    before = [x.copy() for x in p]
    with pytest.raises(OverlapError):
        nf.ops.sgd_step(p, [g[0], memory[1:5]], lr=0.5)
    readonly = np.ones(4)
    readonly.flags.writeable = False
    with pytest.raises(ReadOnlyError):
        nf.ops.sgd_step([p[0], readonly], g, lr=0.5)
    for a, b in zip(p, before, strict=True):
        np.testing.assert_array_equal(a, b)


REFUSED = {
    "another key": ({"grad": {"w": np.ones(3), "c": [np.ones(2)]}}, ShapeError,
                    r"adam_step: grad is a dict with the keys \['w', 'c'\]; expected a "
                    r"dict with the keys \['w', 'b'\], as param is"),
    "another length": ({"m": {"w": np.ones(3), "b": []}}, ShapeError,
                       r"m\['b'\] is a list of 0; expected a list of 1"),
    "another shape": ({"v": {"w": np.ones(4), "b": [np.ones(2)]}}, ShapeError,
                      r"'v\['w'\]' of shape \(4,\) does not fit 'param\['w'\]' of "
                      r"shape \(3,\)"),
    "an integer": ({"grad": {"w": np.ones(3), "b": [np.ones(2, int)]}}, KernelTypeError,
                   r"'grad\['b'\]\[0\]' has dtype int64; expected a floating one"),
    "no array": ({"grad": {"w": None, "b": [np.ones(2)]}}, KernelTypeError,
                 r"grad\['w'\]"),
    "no tree": ({"grad": np.ones(3)}, ShapeError,
                "grad is a (ndarray|Symbol); expected a dict"),
}


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("case", REFUSED)
def test_leaves_are_named(case, fused):
    changed, error, message = REFUSED[case]
    param, grad, m, v = _trees(3, 3, 3, 3)
    given = {"grad": grad, "m": m, "v": v, **changed}

    def step(param, given):
        nf.ops.adam_step(param, **given, step=1)

    with pytest.raises(error, match=message):
        (nf.fuse(step) if fused else step)(param, given)
    np.testing.assert_array_equal(param["w"], 1.0)


def test_two_libraries_are_refused():
    torch = pytest.importorskip("torch")
    with pytest.raises(KernelTypeError, match=r"'param\['b'\]' is of torch"):
        nf.ops.sgd_step({"w": np.ones(2), "b": torch.ones(2)},
                        {"w": np.ones(2), "b": torch.ones(2)}, lr=1.0)


def test_immutable_arrays_are_refused():
    jax = pytest.importorskip("jax")
    with pytest.raises(KernelTypeError, match=r"'param\['w'\]' is an array of jax, "
                                              "whose arrays are immutable"):
        nf.ops.sgd_step({"w": jax.numpy.ones(2)}, {"w": jax.numpy.ones(2)}, lr=1.0)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_squares_of_narrow_gradients_do_not_overflow(dtype, device):
    if dtype == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes").bfloat16
    grads = [nf.array(np.full(4, 1000.0, dtype), device=device)]
    assert float(nf.to_numpy(nf.ops.clip_by_global_norm(grads, 1.0))) == 2000.0
    np.testing.assert_allclose(nf.to_numpy(grads[0]).astype("f4"), 0.5, rtol=4e-3)


def test_clipping_refuses():
    with pytest.raises(KernelTypeError, match="holds no array"):
        nf.ops.clip_by_global_norm({}, 1.0)
    with pytest.raises(nf.errors.RangeError, match="max_norm"):
        nf.ops.clip_by_global_norm([np.ones(2)], -1.0)


def test_norms_that_are_not_finite():
    grads = [np.array([np.inf, 1.0]), np.ones(2)]
    assert nf.ops.clip_by_global_norm(grads, 1.0) == np.inf
    np.testing.assert_array_equal(grads[0], [np.nan, 0.0])
    np.testing.assert_array_equal(grads[1], 0.0)
    grads = [np.array([np.nan, 1.0]), np.ones(2)]
    assert np.isnan(nf.ops.clip_by_global_norm(grads, 1.0))
    assert np.isnan(grads[1]).all()
