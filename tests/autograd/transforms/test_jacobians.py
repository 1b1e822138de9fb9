"""Jacobian and Hessian matrices against torch.func and finite differences."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import ShapeError
from nbfused.support.trees import leaves_of
from tests.variants import sampled_together

pytestmark = pytest.mark.interpreted

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(3)
A, X, V = RNG.normal(size=(4, 3)), RNG.normal(size=3), RNG.normal(size=3)


def host(x):
    return x.to_numpy() if isinstance(x, nf.Variable) else nf.to_numpy(x)


def vector(x):
    return nf.ops.tanh(nf.ops.matmul(A, x)) * x[0] + nf.ops.softmax(x)[1]


def scalar(x):
    return nf.ops.sum(vector(x) ** 2)


def plain(x):
    """Without the row, whose derivatives of higher order take long to compile."""
    return nf.ops.sum((nf.ops.tanh(nf.ops.matmul(A, x)) * x[0]) ** 2)


def torch_plain(x):
    return ((torch.tanh(torch.tensor(A) @ x) * x[0]) ** 2).sum()


def torch_vector(x):
    return torch.tanh(torch.tensor(A) @ x) * x[0] + torch.softmax(x, 0)[1]


def torch_scalar(x):
    return (torch_vector(x) ** 2).sum()


@pytest.mark.parametrize("jacobian", [nf.jacrev, nf.jacfwd, nf.jacobian])
@pytest.mark.parametrize("make", [np.array, torch.tensor, nf.Variable],
                         ids=["numpy", "torch", "Variable"])
def test_jacobians(jacobian, make):
    found = jacobian(vector)(make(X)) if make is not torch.tensor else jacobian(
        lambda x: nf.ops.tanh(nf.ops.matmul(torch.tensor(A), x)) * x[0]
        + nf.ops.softmax(x)[1])(make(X))
    assert type(found) is type(make(X))
    want = torch.func.jacrev(torch_vector)(torch.tensor(X))
    np.testing.assert_allclose(host(found), want,
                               rtol=1e-10)


@pytest.mark.parametrize(("outer", "inner"), sampled_together(
    [(outer, inner) for outer in (nf.jacrev, nf.jacfwd, nf.grad)
     for inner in (nf.jacrev, nf.jacfwd, nf.grad)] + [(nf.hessian, None)],
    (nf.jacrev, nf.jacrev), (nf.jacfwd, nf.grad), (nf.grad, nf.jacrev),
    (nf.hessian, None)))
def test_second_order(outer, inner):
    want = torch.func.hessian(torch_scalar)(torch.tensor(X)).numpy()
    if outer is nf.hessian:
        found = nf.hessian(scalar)(X)
    elif outer is nf.grad:
        found = np.stack([nf.grad(lambda x, k=k: inner(scalar)(x)[k])(X)
                          for k in range(3)])
    else:
        found = outer(inner(scalar))(X)
    np.testing.assert_allclose(found, want, rtol=1e-9)


@pytest.mark.parametrize("outer", [nf.jacrev, nf.jacfwd])
@pytest.mark.parametrize("inner", [nf.jacrev, nf.jacfwd])
def test_second_order_without_rows(outer, inner):
    want = torch.func.hessian(torch_plain)(torch.tensor(X)).numpy()
    np.testing.assert_allclose(outer(inner(plain))(X), want, rtol=1e-9)


@pytest.mark.parametrize(("function", "torch_function"), sampled_together(
    [(plain, torch_plain), (scalar, torch_scalar)], (plain, torch_plain)))
def test_third_order(function, torch_function):
    found = nf.jacrev(nf.hessian(function))(X)
    want = torch.func.jacrev(torch.func.hessian(torch_function))(torch.tensor(X))
    np.testing.assert_allclose(found, want.numpy(), rtol=1e-8)


def test_a_jacobian_is_one_pass():
    """As many launches for a matrix of 3 rows as for one of 30."""
    counts = []
    for n in (3, 30):
        wide = RNG.normal(size=(n, 3))
        with nf.trace_launches() as launches:
            nf.jacrev(lambda x, wide=wide: nf.ops.tanh(nf.ops.matmul(wide, x)))(X)
        counts.append(len(launches))
    assert counts[0] == counts[1] < 12


def test_trees_in_and_out():
    tree = {"w": A, "b": [X, 2.0 * X]}

    def f(p):
        return {"o": nf.ops.matmul(p["w"], p["b"][0]), "q": ((p["b"][1] ** 2).sum(),)}

    rows, columns = nf.jacrev(f)(tree), nf.jacfwd(f)(tree)
    np.testing.assert_allclose(rows["o"]["w"], np.einsum("ik,j->ikj", np.eye(4), X))
    np.testing.assert_allclose(rows["o"]["b"][0], A)
    np.testing.assert_allclose(rows["q"][0]["b"][1], 4 * X)
    for a, b in zip(leaves_of(rows), leaves_of(columns), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-14)


def test_argnums_and_aux():
    def f(x, y):
        return x * y, x.shape

    (by_x, by_y), aux = nf.jacrev(f, argnums=(0, 1), has_aux=True)(X, V)
    np.testing.assert_allclose(by_x, np.diag(V))
    np.testing.assert_allclose(by_y, np.diag(X))
    assert aux == (3,)
    (forward,), again = nf.jacfwd(f, argnums=(1,), has_aux=True)(X, V)
    np.testing.assert_allclose(forward, np.diag(X))
    assert again == (3,)
    crossed = nf.hessian(lambda x, y: (x * y).sum(), argnums=(0, 1))(X, V)
    np.testing.assert_allclose(crossed[0][1], np.eye(3))
    np.testing.assert_allclose(crossed[1][1], np.zeros((3, 3)))


@pytest.mark.parametrize("jacobian", [nf.jacrev, nf.jacfwd])
def test_rules_that_compute_with_variables_give_arrays(jacobian):
    """The rule of `solve` has a Variable of the plain matrix beside the cotangents."""
    matrix = A[:3] + 3 * np.eye(3)
    found = jacobian(lambda x: np.linalg.solve(matrix, x))(X)
    assert type(found) is np.ndarray
    np.testing.assert_allclose(found, np.linalg.inv(matrix), rtol=1e-10)
    assert type(jacobian(lambda x: np.linalg.solve(matrix, x))(
        nf.Variable(X))) is nf.Variable


def test_products_with_the_hessian():
    matrix = torch.func.hessian(torch_scalar)(torch.tensor(X)).numpy()
    np.testing.assert_allclose(nf.hvp(scalar, (X,), (V,)), matrix @ V, rtol=1e-9)
    p = {"a": X, "b": V}
    found = nf.hvp(lambda p: (p["a"] ** 2 * p["b"]).sum(), (p,), ({"a": V, "b": X},))
    np.testing.assert_allclose(found["a"], 2 * V * V + 2 * X * X)
    np.testing.assert_allclose(found["b"], 2 * X * V)


def test_elementwise_grad():
    np.testing.assert_allclose(nf.elementwise_grad(lambda x: x[::-1] ** 2)(X), 2 * X)
    twice = nf.elementwise_grad(nf.elementwise_grad(lambda x: np.sin(x)))
    np.testing.assert_allclose(twice(X), -np.sin(X))


def test_linearize():
    y, push = nf.linearize(vector, X)
    np.testing.assert_allclose(y, vector(X))
    matrix = torch.func.jacrev(torch_vector)(torch.tensor(X)).numpy()
    np.testing.assert_allclose(push(V), matrix @ V, rtol=1e-10)
    np.testing.assert_allclose(nf.vmap(push)(A), A @ matrix.T, rtol=1e-10)
    with pytest.raises(ShapeError, match="2 tangents for 1 primals"):
        push(V, V)
    with pytest.raises(ShapeError, match="tangent 0: shape"):
        push(np.ones(4))


def test_a_gradient_of_a_jacobian():
    x = nf.Variable(X, requires_grad=True)
    (nf.jacfwd(vector)(x) ** 2).sum().backward()
    want = torch.func.grad(lambda x: (torch.func.jacrev(torch_vector)(x) ** 2).sum())(
        torch.tensor(X))
    np.testing.assert_allclose(x.grad, want, rtol=1e-8)


@pytest.mark.filterwarnings("ignore::nbfused.errors.NbFusedPerformanceWarning")
def test_inside_fuse_and_over_samples():
    want = nf.hessian(plain)(X)
    np.testing.assert_allclose(nf.fuse(nf.hessian(plain))(X), want, rtol=1e-10)
    found = nf.vmap(nf.hessian(plain))(np.stack([V, X]))
    np.testing.assert_allclose(found[1], want, rtol=1e-10)
    found = nf.vmap(nf.jacfwd(vector))(np.stack([V, X]))
    np.testing.assert_allclose(found[1], nf.jacrev(vector)(X), rtol=1e-10)
