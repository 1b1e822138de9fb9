"""Gradients of complex numbers: finite differences both ways, JAX, PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError
from nbfused.testing import GradcheckError, gradcheck
from tests.refusal import refused
from tests.variants import sampled

pytestmark = pytest.mark.interpreted

RNG = np.random.default_rng(20)
BOTH = ("reverse", "forward")


def drawn(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape) + 1j * RNG.normal(size=shape)


Z, W, X = drawn(4), drawn(4), RNG.normal(size=4)
MATRIX = drawn(3, 3)


def hermitian(a):
    return a @ np.conj(a.T)


FUNCTIONS = {
    "exp": (np.exp, Z), "log": (np.log, Z), "sqrt": (np.sqrt, Z), "tan": (np.tan, Z),
    "arcsin": (np.arcsin, Z), "arccos": (np.arccos, Z), "arctan": (np.arctan, Z),
    "arcsinh": (np.arcsinh, Z), "arccosh": (np.arccosh, Z), "tanh": (np.tanh, Z),
    "arctanh": (np.arctanh, Z), "expm1": (np.expm1, Z), "log1p": (np.log1p, Z),
    "exp2": (np.exp2, Z), "log2": (np.log2, Z), "log10": (np.log10, Z),
    "sinc": (np.sinc, Z), "reciprocal": (np.reciprocal, Z), "square": (np.square, Z),
    "abs": (abs, Z), "sign": (np.sign, Z), "angle": (np.angle, Z),
    "parts": (lambda z: np.real(z) * np.imag(z) * np.conj(z), Z),
    "power": (lambda a, b: a ** b, Z, W), "cube": (lambda z: z ** 3, Z),
    "real exponent": (lambda a, b: a ** b, Z, X),
    "mixed product": (lambda a, b: a * b + abs(a) * b, Z, X),
    "mixed quotient": (lambda a, b: a / b, X, Z),
    "from a real number": (lambda x: abs(np.exp(1j * x) * x), X),
    "branch": (nf.elementwise(lambda z: np.real(z) if abs(z) > 1.0 else z * z), Z),
    "maximum": (np.maximum, Z, W), "largest": (np.max, Z),
    "methods of a number": (nf.elementwise(
        lambda z: (z * z).conjugate() * z.real + z.conj() * np.angle(z)), Z),
    "polar": (nf.elementwise(lambda r, a: complex(r * np.cos(a), r * np.sin(a))), X, X),
    "broadcast": (lambda a, b: a[:, None] * b[0], X, Z),
    "sum": (lambda z: np.sum(z) * z, Z), "prod": (np.prod, Z), "mean": (np.mean, Z),
    "var": (np.var, Z), "std": (np.std, Z), "norm": (np.linalg.norm, Z),
    "cumsum": (np.cumsum, Z), "cumprod": (np.cumprod, Z), "vdot": (np.vdot, Z, W),
    "matmul": (np.matmul, MATRIX, MATRIX.real.copy()),
    "einsum": (lambda a, b: np.einsum("i,ij,j->", a, b, np.conj(a)), Z[:3], MATRIX),
    "real beside": (nf.elementwise(
        lambda x, z: np.expm1(x) * abs(x) * z + np.sinh(x)), X, Z),
    "rows": (lambda z: z[np.array([0, 1, 1])], Z),
}


@pytest.mark.variants
@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_in_both_modes_to_second_order(name):
    function, *args = FUNCTIONS[name]
    gradcheck(function, args, order=2, modes=BOTH)


@pytest.mark.parametrize("name", [
    "abs", "parts", "mixed product", "matmul", "polar"])
def test_derivatives_of_functions_that_are_not_holomorphic(name):
    function, *args = FUNCTIONS[name]
    gradcheck(function, args, order=2, modes=BOTH)


LINALG = {
    "inv": (np.linalg.inv, MATRIX), "det": (np.linalg.det, MATRIX),
    "pinv": (np.linalg.pinv, drawn(4, 2)),
    "solve": (np.linalg.solve, MATRIX.real.copy(), drawn(3, 2)),
    "slogdet": (lambda a: np.multiply(*np.linalg.slogdet(a)), MATRIX),
    "cholesky": (lambda a: np.linalg.cholesky(hermitian(a)), MATRIX),
    "qr": (lambda a: np.matmul(*np.linalg.qr(a)[::-1]), MATRIX),
    "eigh": (lambda a: abs(np.linalg.eigh(hermitian(a))[1]), MATRIX),
    "eig": (lambda a: np.sort_complex(np.linalg.eigvals(a)), MATRIX),
    "eigenvectors": (lambda a: np.sort(abs(np.linalg.eig(a)[1]), axis=None), MATRIX),
    "real eig": (lambda a: np.sum(np.linalg.eigvals(a) ** 3 * 1j), MATRIX.real.copy()),
    "svd": (lambda a: np.linalg.svd(a, full_matrices=False)[1], drawn(4, 2)),
    "vectors": (lambda a: (lambda u, s, v: (u * s ** 2) @ v)(
        *np.linalg.svd(a, full_matrices=False)), drawn(2, 4)),
    "nuclear": (lambda a: np.linalg.norm(a, "nuc"), MATRIX),
}


@pytest.mark.variants
@pytest.mark.parametrize("name", LINALG)
def test_linear_algebra(name):
    function, *args = LINALG[name]
    gradcheck(function, args, order=2, modes=BOTH, samples=3)


@pytest.mark.parametrize("name", [
    "fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "ifftn", "rfft2", "rfftn",
    "irfft2", "irfftn"])
def test_fourier_transforms(name):
    """A linear function is its own derivative; a transpose moves to the other side."""
    transform = getattr(np.fft, name)
    real = name in ("rfft", "ihfft", "rfft2", "rfftn")
    for shape in ((3, 6), (3, 5), (2, 1)):
        x = RNG.normal(size=shape) if real else drawn(*shape)
        if shape[-1] == 1 and name in ("irfft", "hfft", "irfft2", "irfftn"):
            continue
        for norm in (None, "ortho", "forward"):
            def along(x, norm=norm):
                return transform(x, norm=norm)

            y, pullback = nf.vjp(along, x)
            np.testing.assert_array_equal(y, along(x))
            g = drawn(*y.shape) if y.dtype.kind == "c" else RNG.normal(size=y.shape)
            (gradient,) = pullback(g)
            assert gradient.dtype == x.dtype
            v = RNG.normal(size=shape) if real else drawn(*shape)
            np.testing.assert_allclose(np.sum(gradient * v).real,
                                       np.sum(g * along(v)).real, rtol=1e-12)
            np.testing.assert_allclose(nf.jvp(along, (x,), (v,))[1], along(v),
                                       rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n", [1, 3, 6, 8])
def test_extents_of_fourier_transforms(n):
    gradcheck(lambda z: np.fft.fft(z, n) * np.fft.irfft(z, n), [drawn(4)],
              modes=BOTH, samples=4)


def test_gradients_are_those_of_jax():
    jax = pytest.importorskip("jax")
    jnp = jax.numpy

    def loss(m, z, x):
        u = m.fft.fft(z * x) * m.conj(z)
        return m.sum(m.abs(u) ** 2 * m.angle(z)) + m.linalg.norm(z - x)

    with jax.enable_x64(True):
        wanted = jax.grad(lambda *a: loss(jnp, *a), argnums=(0, 1))(Z, X)
        _, along = jax.jvp(jax.grad(lambda z: loss(jnp, z, X)), (Z,), (W,))
    eager = nf.grad(lambda *a: loss(np, *a), argnums=(0, 1))
    fused = nf.fuse(lambda z, x: eager(z, x))
    for found in (eager(Z, X), fused(Z, X), fused(Z, X)):
        for a, b in zip(found, wanted, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, np.asarray(b), rtol=1e-10)
    found = nf.hvp(lambda z: loss(np, z, X), (Z,), (W,))
    np.testing.assert_allclose(found, np.asarray(along), rtol=1e-9)


@pytest.mark.parametrize(("function", "args"), [
    (lambda m, a, b: m.multiply(a, b), (Z, X)),
    (lambda m, a, b: m.matmul(a, b), (MATRIX, MATRIX.T.copy())),
    (lambda m, a, b: m.absolute(a) * b, (Z, W))], ids=["multiply", "matmul", "abs"])
def test_tensors_get_gradients_in_the_convention_of_pytorch(function, args):
    torch = pytest.importorskip("torch")
    found = []
    for module in (nf.ops, torch):
        leaves = [torch.tensor(a, requires_grad=True) for a in args]
        y = function(module, *leaves)
        g = torch.linspace(1, 2, y.numel()).reshape(y.shape).to(y.dtype) * (1 + 0.5j)
        first = torch.autograd.grad(y, leaves, g, create_graph=True)
        total = sum((p * p.conj()).real.sum() for p in first)
        found.append((*first, *torch.autograd.grad(total, leaves)))
    for ours, theirs in zip(*found, strict=True):
        assert ours.dtype == theirs.dtype
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def test_holomorphic_functions():
    def powers(z):
        return np.cumsum(z * z)

    wanted = np.tril(np.ones((4, 4))) * 2 * Z
    for transform in (nf.jacrev, nf.jacfwd):
        np.testing.assert_allclose(transform(powers, holomorphic=True)(Z), wanted)
    value, gradient = nf.value_and_grad(np.exp, holomorphic=True)(1j)
    np.testing.assert_allclose([value, gradient], np.exp([1j, 1j]))
    np.testing.assert_allclose(
        nf.hessian(lambda z: np.sum(z ** 3), holomorphic=True)(Z), np.diag(6 * Z))
    np.testing.assert_allclose(nf.jacfwd(lambda x: x * 1j)(X), 1j * np.eye(4))


@pytest.mark.parametrize(("call", "words"), [
    (lambda: nf.grad(np.sum)(Z), ("grad", "complex128", "holomorphic=True")),
    (lambda: nf.jacrev(np.exp)(Z), ("jacrev", "complex128", "vjp")),
    (lambda: nf.jacfwd(abs)(Z), ("jacfwd", "argument", "jvp")),
    (lambda: nf.hessian(lambda z: np.sum(abs(z)**2))(Z),
     ("hessian", "argument", "complex128", "hvp")),
    (lambda: nf.hessian(lambda x: np.sum(1j * x))(X), ("hessian", "output", "vjp")),
    (lambda: nf.elementwise_grad(np.exp)(Z), ("elementwise_grad", "complex128")),
    (lambda: nf.grad(np.sum, holomorphic=True)(X), ("argument", "float64", "complex")),
    (lambda: nf.grad(lambda z: abs(z).sum(), holomorphic=True)(Z),
     ("output", "float64", "complex")),
    (lambda: nf.Variable(Z, requires_grad=True).sum().backward(),
     ("backward()", "complex128", "grad="))])
def test_what_is_refused(call, words):
    with refused(KernelTypeError, *words):
        call()


def test_backward_of_a_complex_result_takes_a_cotangent():
    z = nf.Variable(Z.astype("complex64"), requires_grad=True)
    (z * z).sum().backward(np.array(2j, "complex64"))
    assert z.grad.dtype == np.complex64
    np.testing.assert_allclose(z.grad, 4j * Z.astype("complex64"), rtol=1e-6)


def test_kinks_have_derivative_zero():
    zero = np.zeros(2, complex)
    for function in (abs, np.real, lambda z: abs(z) ** 2, np.linalg.norm):
        gradient = nf.grad(lambda z, f=function: np.sum(f(z)))(zero)
        np.testing.assert_array_equal(gradient, [1, 1] if function is np.real else 0)


CUT = ("log", "log1p", "sqrt", "arcsin", "arccos", "arctan", "arcsinh", "arccosh",
       "arctanh")


@pytest.mark.parametrize("name", CUT)
def test_derivatives_on_both_sides_of_branch_cuts(name):
    """Zeros say by their signs which side it is; beside differences along the cut."""
    function, step = getattr(np, name), 1e-6
    for turn in (complex, lambda a, b: complex(b, a)):  # along each axis
        z, before, after = (np.array([turn(a + s, b) for a in (2.0, -2.0, 0.5, -3.7)
                                      for b in (0.0, -0.0)]) for s in (0, -step, step))
        found = nf.grad(lambda z: np.sum(function(z)), holomorphic=True)(z)
        np.testing.assert_allclose(
            found, (function(after) - function(before)) / (after - before), 1e-6)


@pytest.mark.parametrize("name", CUT)
def test_derivatives_far_away(name):
    """Nothing overflows on the way; they go like powers, as they do nearer by."""
    z = np.array([1e170 + 2e170j, -3e170 + 1e170j, 2e170 - 1e170j])
    found, near = (nf.grad(lambda z: np.sum(getattr(np, name)(z)), holomorphic=True)(x)
                   for x in (z, z / 2**400))
    power = {"sqrt": 0.5, "arctan": 2.0, "arctanh": 2.0}.get(name, 1.0)
    np.testing.assert_allclose(found, near * 2.0**(-400 * power), rtol=1e-12)


def test_rules_of_users():
    """A rule of tangents that conjugates them is linear over the real numbers only."""
    @nf.custom_jvp
    def mirrored(z):
        return np.conj(z) * z

    @mirrored.defjvp
    def rule(primals, tangents):
        (z,), (t,) = primals, tangents
        return mirrored(z), np.conj(t) * z + np.conj(z) * t

    gradcheck(lambda z: mirrored(z), [Z], order=2, modes=BOTH)


def test_real_results_beside_complex_ones_stay_real():
    both = nf.elementwise(lambda x, z: (np.expm1(x) * abs(x), z * x))
    (real, _), pullback = nf.vjp(both, X, Z)
    assert real.dtype == np.float64
    gradient, _ = pullback(X, Z)
    wanted = X * (np.exp(X) * abs(X) + np.expm1(X) * np.sign(X)) + (Z * Z).real
    np.testing.assert_allclose(gradient, wanted, rtol=1e-12)


@pytest.mark.parametrize("way", ["defjvp", "defvjp"])
def test_a_rule_of_a_scalar_function_gives_the_other(way):
    @nf.elementwise
    def size(z):
        return np.conj(z) * z * np.real(z)

    def pushed(z, dz):
        return (np.conj(dz) * z + np.conj(z) * dz) * np.real(z) \
            + np.conj(z) * z * np.real(dz)

    def pulled(z, g):
        return np.conj(g * z * np.real(z)) + g * np.conj(z) * np.real(z) \
            + np.real(g * np.conj(z) * z)

    getattr(size, way)(pushed if way == "defjvp" else pulled)
    gradcheck(size, [Z], modes=BOTH)


def test_a_wrong_derivative_is_found():
    @nf.custom_vjp
    def twice(z):
        return z * (2.0 + 1.0j)

    twice.defvjp(lambda z: (twice(z), ()), lambda _, g: (g * (2.0 - 1.0j),))
    with pytest.raises(GradcheckError):
        gradcheck(twice, [Z])


@pytest.mark.compiled
@pytest.mark.parametrize("compare", [
    np.less, np.less_equal, np.greater, np.greater_equal, np.maximum, np.minimum,
    np.fmax, np.fmin], ids=lambda f: f.__name__)
def test_the_order_is_that_of_numpy(compare):
    nan = np.nan
    z = np.array([1 + 2j, complex(nan, 1), complex(1, nan), 2 + 1j, 1 + 3j, 2])
    a, b = np.repeat(z, len(z)), np.tile(z, len(z))
    with np.errstate(invalid="ignore"):
        expected = compare(a, b)
    np.testing.assert_array_equal(compare(nf.Variable(a), b).to_numpy(), expected)


@pytest.mark.compiled
@pytest.mark.parametrize("function", sampled(
    [np.max, np.min, np.argmax, np.argmin], np.max, np.argmin),
    ids=lambda f: f.__name__)
def test_extremes_are_those_of_numpy(function):
    z = np.array([[1 + 2j, 1 - 2j, 3], [0, 1j, -1j]])
    for axis in (None, 0, 1):
        np.testing.assert_array_equal(
            function(nf.Variable(z), axis=axis).to_numpy(), function(z, axis=axis))


@pytest.mark.compiled
@pytest.mark.parametrize("function", [
    lambda x: abs(complex(x, 2.0)),
    lambda x: np.sign(complex(x, 1.0)).real,
    lambda x: (complex(x, 2.0)**complex(0.1, x)).imag,
    lambda x: np.sinc(complex(x, 1.0)).real], ids=["abs", "sign", "power", "sinc"])
def test_numbers_that_are_complex_inside_of_a_real_function(function):
    called = nf.elementwise(function)
    gradcheck(called, (X,))
    gradcheck(nf.elementwise_grad(called), (X,))
