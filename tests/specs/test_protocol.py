"""A kind of spec that nbfused does not have runs by what it says of itself."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.autograd import apply
from nbfused.backend import builder
from nbfused.dispatch import execute, trace_launches
from nbfused.errors import KernelTypeError, OverlapError, ShapeError
from nbfused.specs import COMBINES, Contract, Map, Raw, Reduce, Ref, Spec, View
from nbfused.specs.base import Hashed, Program, Pullback
from nbfused.support.loop_nests import Frame
from nbfused.support.records import record
from tests.dispatch.numpy_backend import ADD, COUNT, EPILOGUE, ROW, function
from tests.plugin.nbfused_interpreter import InterpreterBackend, view


@record(frozen=True)
class Running(Spec):
    """Sums of the elements up to each along the last axis, or from each on."""

    backwards: bool = False

    __hash__ = Hashed.__hash__

    @property
    def name(self):
        return "running"

    @property
    def parameters(self):
        return (("element", "x"),)

    def out_shapes(self, shapes):
        return shapes

    def frame(self, operands, names=(), target=None):
        ((shape, strides),) = operands
        axes = tuple(range(len(shape)))
        return Frame(shape, (axes[:-1], axes[-1:]), (strides,), (axes,),
                     ((0, 1), (0, 1)), fixed=(1,))

    def result_types(self, types):
        return types

    def typed(self, types, outputs=()):
        return self

    def vjp(self, needs, shapes, present):
        program = Program()
        result = program.run(Running(not self.backwards), Ref("cotangent", 0))
        return Pullback(self, tuple(program.steps), result)


class Backend(InterpreterBackend):
    """The interpreter, which knows one kind more."""

    def build(self, spec, signature):
        if type(spec) is not Running:
            return super().build(spec, signature)

        def launch(call):
            dtypes = (*signature.inputs, *signature.outputs)
            x, y = (view(p, call.shape, s, d) for p, s, d in
                    zip(call.pointers, call.strides, dtypes, strict=True))
            step = -1 if spec.backwards else 1
            y[...] = x[..., ::step].cumsum(-1)[..., ::step]

        return launch


@pytest.fixture(autouse=True)
def backend():
    with nf.use_backend(Backend()):
        yield


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4), (0, 4), (3, 0), (1, 1)])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("backwards", [False, True])
def test_it_runs(shape, turned, backwards):
    x = np.random.default_rng(0).standard_normal(shape[::-1] if turned else shape)
    x = x.T if turned else x
    for _ in range(2):  # the second call is a prepared one
        (found,) = execute(Running(backwards), (x,))
        expected = x[..., ::-1].cumsum(-1)[..., ::-1] if backwards else x.cumsum(-1)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        assert found.flags.f_contiguous == x.flags.f_contiguous


def test_it_is_not_said_to_be_pointwise():
    """So it may not store where it still reads."""
    x = np.arange(4.0)
    with pytest.raises(OverlapError):
        execute(Running(), (x,), out=(x,))
    np.testing.assert_array_equal(x, np.arange(4.0))
    with pytest.raises(ShapeError, match="elementwise"):
        nf.grad(lambda x: apply(Running(), (x,))[0])(x)


def test_it_is_differentiated_twice():
    x = nf.Variable(np.array([1.0, 2.0, 3.0]), requires_grad=True)
    w = np.array([3.0, 5.0, 7.0])
    (y,) = apply(Running(), (x,))
    gradient = nf.grad(lambda x: (apply(Running(), (x,))[0] ** 2 * w).sum())(x.data)
    np.testing.assert_allclose(gradient, [2 * (3 * 1 + 5 * 3 + 7 * 6),
                                          2 * (5 * 3 + 7 * 6), 2 * 7 * 6])
    (y ** 2 * w).sum().backward(create_graph=True)
    first, x.grad = x.grad, None
    first.sum().backward()  # the Hessian is 2 L' diag(w) L, of ones below the diagonal
    lower = np.tril(np.ones((3, 3)))
    np.testing.assert_allclose(x.grad, 2 * lower.T @ np.diag(w) @ lower @ np.ones(3))


def test_a_gradient_of_ones_reaches_it():
    """A backward pass begins with a constant 1: Running reads it as an array."""
    x = nf.Variable(np.arange(4.0), requires_grad=True)
    apply(Running(), (x,))[0].sum().backward()
    np.testing.assert_array_equal(x.grad, [4.0, 3.0, 2.0, 1.0])


def test_it_is_fused_around():
    @nf.fuse
    def step(x):
        return apply(Running(), (x * 2.0 + 1.0,))[0] * x

    x = np.arange(6.0).reshape(2, 3)
    for _ in range(2):
        with trace_launches() as launches:
            found = step(x)
        assert [launch.kind for launch in launches] == ["Map", "Running", "Map"]
        np.testing.assert_allclose(found, (2 * x + 1).cumsum(-1) * x)


def test_a_backend_without_it_says_so():
    with nf.use_backend("cpu"), pytest.raises(KernelTypeError, match="no Running"):
        execute(Running(), (np.arange(3.0),))


def test_a_builder_is_found_by_the_kind_of_spec():
    found = builder({"Running": "specs.test_protocol:Running"}, Running(), "tests")
    assert found.__name__ == "Running"


#: What a spec says of its inputs.
PARAMETERS = {
    ADD: (("element", "x"), ("element", "y")),
    COUNT: (("element", "x"),),
    Reduce(function("f", ("x", "i"), ("z", "add", "x", "i")), ("scalar", "index"),
           COMBINES["sum"], function("p", ("s",), ("t", "id", "s"))):
        (("scalar", "x"),),
    Map(function("take", ("a", "i", "n", "out"), ("z", "id", "i")),
        ("raw", "element", "size", "scatter"), ((3,),)):
        (("raw", "a"), ("element", "i")),
    Contract("mk,kn->mn", EPILOGUE, ("element", "scalar")):
        (("element", "a"), ("element", "b"),
         *zip(("element", "scalar"), EPILOGUE.params[1:], strict=True)),
    ROW: tuple(zip(ROW.kinds, ROW.inputs, strict=True)),
    Raw(function("k", ("x", "n"), ("z", "id", "n")), ("array", "scalar")):
        (("array", "x"), ("scalar", "n")),
}


@pytest.mark.parametrize("spec", PARAMETERS, ids=lambda s: type(s).__name__)
def test_parameters(spec):
    assert spec.parameters == PARAMETERS[spec]


def test_what_is_true_of_views():
    """What shares memory with its input, and what has extents in it."""
    kinds = {"reshape": (3,), "transpose": (0,), "broadcast": (3,), "expand": (0,),
             "squeeze": (0,), "slice": ((0, 3, 1),), "unslice": ((3,), ((0, 3, 1),)),
             "concatenate": (0,)}
    views = [View(kind, params) for kind, params in kinds.items()]
    assert not any(v.launches for v in views)
    assert {v.kind for v in views if not v.rearranges} == {"unslice", "concatenate"}
    assert {v.kind for v in views if not v.fixes_extents} == {
        "transpose", "expand", "squeeze"}


@pytest.mark.parametrize("spec", [View("reshape", (3,)), next(
    s for s in PARAMETERS if isinstance(s, Raw))], ids=["View", "Raw"])
def test_what_has_no_loops_is_refused(spec):
    with pytest.raises(KernelTypeError, match="no spec that launches"):
        spec.frame(())


