"""Each keyword of each of NumPy's functions: honoured, or refused by its name.

On arrays by `nf.ops`, on Variables and in `nf.fuse` by NumPy's protocols.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from copy import deepcopy
from functools import reduce
from typing import Any

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import NbFusedError
from nbfused.numpy_functions.refused import REFUSED
from nbfused.support.trees import leaves_of, map_tree
from tests.numpy_functions.calls import NONE, VALUES, call_of
from tests.numpy_functions.test_namespace import FOUND
from tests.variants import sampled

pytestmark = pytest.mark.interpreted

FUNCTIONS = sorted(FOUND.keys() - REFUSED.keys())
#: Keywords that some functions refuse: on arrays none, on Variables arrays that are
#: stored to, and what leaves elements unset, as in `nf.fuse`.
MAY_REFUSE: frozenset[str] = frozenset()
ON_VARIABLES = MAY_REFUSE | {"out", "where"}
IN_FUSE = MAY_REFUSE | {"where"}
#: Values that they refuse, and why.
REFUSED_VALUES = {
    **dict.fromkeys(("cumulative_prod axis", "cumulative_sum axis", "unstack axis"),
                    "a tuple of one axis"),
    **dict.fromkeys(("mean dtype", "nanmean dtype"), "integers would cut it off"),
    **dict.fromkeys(("nanstd dtype", "nanvar dtype", "std dtype", "var dtype"),
                    "integers, and real numbers of complex ones"),
}
#: Where an array is passed.
HOLE = "an array"
#: Results that are any numbers, or have a sign of their own.
ANY, SIGNS = {"empty_like"}, {"linalg.eigh", "linalg.qr", "linalg.svd"}


def keywords(name: str, args: tuple[Any, ...]) -> Iterator[str]:
    """The parameters that are given by keyword beside the arguments."""
    parameters = inspect.signature(FOUND[name]).parameters.values()
    place = [p.name for p in parameters if p.kind in (
        p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    for p in parameters:
        if p.name not in place[:len(args)] and p.kind in (
                p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY):
            yield p.name


def arguments(name: str) -> tuple[Any, ...]:
    parameters = inspect.signature(FOUND[name]).parameters.values()
    return call_of(name, sum(p.default is p.empty and p.kind in (
        p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters))


def options(name: str, args: tuple[Any, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Keywords with the values to try; `out` and `where` fit the result."""
    function = FOUND[name]
    for keyword in keywords(name, args):
        for value in VALUES.get(f"{name} {keyword}", VALUES[keyword]):
            if isinstance(value, str) and value == "loop":
                if not isinstance(function, np.ufunc):
                    continue
                types = [np.asarray(x).dtype for x in args]
                loop = function.resolve_dtypes((*types, *[None] * function.nout))
                value = loop if keyword == "signature" else loop[-1]
            elif keyword == "out":
                made = function(*deepcopy(args))
                value = tuple(map(np.zeros_like, made)) if isinstance(
                    made, tuple) else np.zeros_like(made)
            elif isinstance(value, np.ndarray) and keyword == "where" and isinstance(
                    function, np.ufunc):
                made = function(*args)
                first = made[0] if isinstance(made, tuple) else made
                value = np.arange(first.size).reshape(first.shape) % 2 == 0
            yield keyword, {keyword: value}


def numpy_result(name: str, args: tuple[Any, ...], given: dict[str, Any]) -> Any:
    """NumPy's result; where `where` is not, it is zero, as ours is."""
    function = FOUND[name]
    if isinstance(function, np.ufunc) and isinstance(given.get("where"), np.ndarray):
        made = function(*args)
        given = {**given, "out": tuple(map(np.zeros_like, made)) if isinstance(
            made, tuple) else np.zeros_like(made)}
    return function(*args, **given)


def on_arrays(name: str, args: tuple[Any, ...], given: dict[str, Any]) -> Any:
    return reduce(getattr, name.split("."), nf.ops)(*args, **given)


def on_variables(name: str, args: tuple[Any, ...], given: dict[str, Any]) -> Any:
    def wrapped(x: Any) -> Any:
        if isinstance(x, (list, tuple)):
            return type(x)(map(wrapped, x))
        return nf.Variable(x) if isinstance(x, np.ndarray) else x

    return FOUND[name](*map(wrapped, args), **given)


def in_fuse(name: str, args: tuple[Any, ...], given: dict[str, Any]) -> Any:
    """The call in a fused function of the arrays; options are constants."""
    arrays = [x for x in leaves_of(args) if isinstance(x, np.ndarray)]
    holes = map_tree(args, lambda x: HOLE if isinstance(x, np.ndarray) else x)

    def run(*traced: Any) -> Any:
        left = iter(traced)
        return FOUND[name](*map_tree(holes, lambda x: next(left) if isinstance(
            x, str) and x == HOLE else x), **given)

    return nf.fuse(run)(*arrays)


def compare(name: str, found: Any, wanted: Any) -> None:
    """Compare values, dtypes and shapes, of several results each."""
    if isinstance(wanted, (tuple, list)):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            compare(name, one, other)
        return
    found = np.asarray(found.data if isinstance(found, nf.Variable) else found)
    assert found.shape == np.shape(wanted)
    if isinstance(wanted, (np.ndarray, np.floating)):
        assert found.dtype == wanted.dtype
    if name in SIGNS:
        found, wanted = abs(found), abs(wanted)
    if name not in ANY and wanted is not None and found.dtype != object:
        np.testing.assert_allclose(found, wanted, 1e-6, 1e-9)


def outcome(call: Any, *arguments: Any) -> Any:
    """The result, or an error of ours."""
    try:
        return call(*arguments)
    except NbFusedError as error:
        return error


def check(name: str, call: Any, may_refuse: frozenset[str]) -> None:
    args, tried = arguments(name), set()
    for keyword, given in options(name, args):
        mine, theirs, named = deepcopy(args), deepcopy(args), deepcopy(given)
        try:
            wanted = numpy_result(name, theirs, given)
        except (TypeError, ValueError, np.exceptions.AxisError):
            continue
        tried.add(keyword)
        found = outcome(call, name, mine, named)
        if isinstance(found, NbFusedError):
            assert keyword in may_refuse or f"{name} {keyword}" in REFUSED_VALUES, found
            assert re.search(rf"\b{keyword}\b.*[;,]", str(found).replace("\n", " "))
            continue
        compare(name, found, wanted)
        if wanted is None:  # the first argument has changed
            compare(name, mine, theirs)
        if keyword == "out" and call is on_arrays:
            assert found is named["out"] if not isinstance(found, tuple) else all(
                x is y for x, y in zip(found, named["out"], strict=True))
    known = {k.partition(" ")[2] for k in NONE if k.partition(" ")[0] == name}
    assert set(keywords(name, args)) - tried - known == set()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_arrays(name):
    with np.errstate(all="ignore"):
        check(name, on_arrays, MAY_REFUSE)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_variables(name):
    with np.errstate(all="ignore"):
        check(name, on_variables, ON_VARIABLES)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sampled(FUNCTIONS, *FUNCTIONS[::12], "divmod"))
def test_traced(name):
    with np.errstate(all="ignore"):
        check(name, in_fuse, IN_FUSE)
