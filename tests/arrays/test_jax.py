"""JAX arrays on the host."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from nbfused.arrays import describe, host_view, is_array, library_of, to_numpy
from nbfused.errors import KernelTypeError

jax = pytest.importorskip("jax")
jnp = jax.numpy


@pytest.fixture(autouse=True)
def _on_the_host():
    with jax.default_device(jax.devices("cpu")[0]):
        yield


@pytest.fixture
def library():
    return library_of(jnp.zeros(1))


@pytest.mark.parametrize("dtype", [
    "bool", "int8", "int16", "int32", "uint8", "uint16", "uint32", "float16", "float32",
    "complex64", "bfloat16"])
def test_dtypes_both_ways(dtype, library):
    x = jnp.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
    array = describe(x)
    assert array.dtype.name == dtype
    assert np.array_equal(host_view(array), np.asarray(x))
    made = library.empty((2, 3), array.dtype, "cpu")
    made[...] = np.asarray(x)
    result = library.finish(made)
    assert isinstance(result, jax.Array)
    assert result.dtype == x.dtype
    assert np.array_equal(np.asarray(result), np.asarray(x))


def test_a_result_is_handed_over_without_a_copy(library):
    made = library.empty((5, 3), np.dtype("float32"), "cpu")
    address = made.ctypes.data
    assert library.finish(made).unsafe_buffer_pointer() == address


@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (4, 5)])
def test_shapes_of_results(shape, library):
    made = library.empty(shape, np.dtype("float32"), "cpu")
    made[...] = 2
    assert np.array_equal(np.asarray(library.finish(made)),
                          np.full(shape, 2, np.float32))


def test_a_permuted_result(library):
    made = library.empty((2, 3), np.dtype("float32"), "cpu")
    made[...] = np.arange(6).reshape(2, 3)
    result = library.finish(library.view(made, (3, 2), (1, 3), 0))
    assert np.asarray(result).tolist() == [[0, 3], [1, 4], [2, 5]]


def test_float64_follows_the_setting_of_jax(library):
    made = np.full(3, 0.1)
    assert library.finish(made).dtype == jnp.float32
    with jax.enable_x64(True):
        assert library.finish(made.copy()).dtype == jnp.float64


def test_arrays_are_immutable(library):
    x = jnp.ones(3)
    assert not library.writable
    assert describe(x).readonly
    assert not host_view(describe(x)).flags.writeable
    with pytest.raises(KernelTypeError, match=r"jax\.numpy\.reshape"):
        library.view(x, (3,), (1,), 0)


def test_unfinished_computations_are_waited_for():
    x = jnp.ones((300, 300))
    y = jax.jit(lambda x: (x @ x @ x)[:, :2])(x)
    assert np.array_equal(host_view(describe(y)), np.full((300, 2), 90000, np.float32))


@pytest.mark.parametrize("transform", [
    jax.jit, jax.vmap, lambda f: jax.grad(lambda x: f(x).sum()),
    lambda f: lambda x: jax.jvp(f, (x,), (x,))])
def test_tracers_are_refused(transform):
    def run(x):
        assert is_array(x)
        assert library_of(x).tracks(x)
        for use in (describe, to_numpy):
            with pytest.raises(KernelTypeError, match="tracer"):
                use(x)
        return x

    transform(run)(jnp.ones(3))


def test_a_callback_has_concrete_arrays():
    def host(x):
        return np.asarray(host_view(describe(x))) * 2

    def call(x):
        return jax.pure_callback(host, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    assert jax.jit(call)(jnp.arange(3.0)).tolist() == [0, 2, 4]


def test_arrays_without_memory_are_refused():
    deleted = jnp.ones(3)
    deleted.delete()
    with pytest.raises(KernelTypeError, match="was deleted"):
        describe(deleted)
    with pytest.raises(KernelTypeError, match="key"):
        describe(jax.random.key(0))
    with pytest.raises(KernelTypeError, match="float8"):
        describe(jnp.ones(3).astype(ml_dtypes.float8_e4m3fn))
