"""``python -m benchmarks.per_sample``: `vmap` beside code for many samples by hand.

The gradient of each sample's loss: of logistic regression, of softmax and cross
entropy, and of a network with a hidden layer.  By hand it is written with the same
operations, on all samples at once; both run as they are and inside `nf.fuse`.  What is
not the result in float64, computed sample by sample, is not timed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import nbfused as nf
import nbfused.errors
from benchmarks.clock import clock

__all__ = ["PROBLEMS", "Problem", "main", "measure"]

SAMPLES, FEATURES, HIDDEN, CLASSES = 10_000, 16, 24, 10
#: Samples that are checked one by one.
CHECKED = 50
TURNS = 9


class Problem(NamedTuple):
    """A loss of one sample, and the gradients of many by hand.

    Attributes
    ----------
    shapes
        Of the parameters.
    targets
        Draws what samples are compared with.
    exact
        The gradients of one sample in float64, by NumPy.
    """

    name: str
    shapes: tuple[tuple[int, ...], ...]
    targets: Callable[[np.random.Generator, int], np.ndarray]
    loss: Callable[..., Any]
    by_hand: Callable[..., Any]
    exact: Callable[..., Any]

    def arrays(self, samples: int, dtype: str = "float32") -> tuple[Any, Any, Any]:
        """The parameters, the samples and their targets."""
        rng = np.random.default_rng(0)
        params = [rng.normal(size=s) / np.sqrt(s[0] if s else 1) for s in self.shapes]
        x = rng.normal(size=(samples, FEATURES))
        y = self.targets(rng, samples)
        return ([np.asarray(p, dtype) for p in params], x.astype(dtype),
                y if y.dtype.kind == "i" else y.astype(dtype))


def _outer(x: Any, slope: Any) -> Any:
    return x[:, :, None] * slope[:, None, :]


def logistic_loss(params: Any, x: Any, y: Any) -> Any:
    """The negative logarithm of the likelihood of a class, 0 or 1."""
    w, b = params
    score = nf.ops.sum(x * w) + b
    return nf.ops.softplus(score) - y * score


def logistic_by_hand(params: Any, x: Any, y: Any) -> Any:
    """The slope is the predicted probability less the class."""
    w, b = params
    slope = nf.ops.sigmoid(nf.ops.sum(x * w, axis=1) + b) - y
    return [x * slope[:, None], slope]


def logistic_exact(params: Any, x: Any, y: Any) -> Any:
    """The same of one sample."""
    slope = 1 / (1 + np.exp(-(x @ params[0] + params[1]))) - y
    return [x * slope, slope]


def softmax_loss(params: Any, x: Any, y: Any) -> Any:
    """Cross entropy of a linear model."""
    w, b = params
    return nf.ops.cross_entropy(nf.ops.matmul(x, w) + b, y)


def softmax_by_hand(params: Any, x: Any, y: Any) -> Any:
    """Softmax less one at the label."""
    w, b = params
    slope = nf.ops.softmax(nf.ops.linear(x, w, b), axis=1) - (
        np.arange(CLASSES) == y[:, None])
    return [_outer(x, slope), slope]


def softmax_exact(params: Any, x: Any, y: Any) -> Any:
    """The same of one sample."""
    scores = np.exp(x @ params[0] + params[1])
    slope = scores / scores.sum() - (np.arange(CLASSES) == y)
    return [np.outer(x, slope), slope]


def network_loss(params: Any, x: Any, y: Any) -> Any:
    """Half the squared error of a network with one hidden layer."""
    w1, b1, w2, b2 = params
    hidden = nf.ops.tanh(nf.ops.matmul(x, w1) + b1)
    return 0.5 * nf.ops.sum(nf.ops.square(nf.ops.matmul(hidden, w2) + b2 - y))


def network_by_hand(params: Any, x: Any, y: Any) -> Any:
    """Backpropagation, with one outer product for each sample and layer."""
    w1, b1, w2, b2 = params
    hidden = nf.ops.tanh(nf.ops.linear(x, w1, b1))
    slope = nf.ops.linear(hidden, w2, b2) - y
    inner = nf.ops.matmul(slope, w2.T) * (1 - nf.ops.square(hidden))
    return [_outer(x, inner), inner, _outer(hidden, slope), slope]


def network_exact(params: Any, x: Any, y: Any) -> Any:
    """The same of one sample."""
    w1, b1, w2, b2 = params
    hidden = np.tanh(x @ w1 + b1)
    slope = hidden @ w2 + b2 - y
    inner = (w2 @ slope) * (1 - hidden ** 2)
    return [np.outer(x, inner), inner, np.outer(hidden, slope), slope]


def _labels(count: int) -> Callable[[np.random.Generator, int], np.ndarray]:
    return lambda rng, samples: rng.integers(count, size=samples)


PROBLEMS = (
    Problem("logistic regression", ((FEATURES,), ()),
            lambda rng, samples: rng.integers(2, size=samples).astype(float),
            logistic_loss, logistic_by_hand, logistic_exact),
    Problem("softmax and cross entropy", ((FEATURES, CLASSES), (CLASSES,)),
            _labels(CLASSES), softmax_loss, softmax_by_hand, softmax_exact),
    Problem("network", ((FEATURES, HIDDEN), (HIDDEN,), (HIDDEN, CLASSES), (CLASSES,)),
            lambda rng, samples: rng.normal(size=(samples, CLASSES)),
            network_loss, network_by_hand, network_exact))


def ways(problem: Problem) -> dict[str, Callable[..., Any]]:
    """Functions of parameters, samples and targets, by name."""
    mapped = nf.vmap(nf.grad(problem.loss), in_axes=(None, 0, 0))

    def by_vmap(params: Any, x: Any, y: Any) -> Any:
        return mapped(params, x, y)

    with warnings.catch_warnings():  # one function for each problem is meant
        warnings.simplefilter("ignore", nf.errors.NbFusedPerformanceWarning)
        return {"vmap": mapped, "by hand": problem.by_hand,
                "vmap, fused": nf.fuse(by_vmap),
                "by hand, fused": nf.fuse(problem.by_hand)}


def check(problem: Problem, function: Callable[..., Any], samples: int) -> float:
    """The largest difference from float64, by the largest number there."""
    params, x, y = problem.arrays(samples)
    wide = [p.astype("float64") for p in params]
    found = function(params, x, y)
    exact = [problem.exact(wide, x[k].astype("float64"), y[k])
             for k in range(min(CHECKED, samples))]
    return max(float(np.abs(nf.to_numpy(a)[:len(exact)] - b).max() / np.abs(b).max())
               for a, b in zip(found, map(np.stack, zip(*exact, strict=True)),
                               strict=True))


def measure(problem: Problem, samples: int = SAMPLES) -> dict[str, float]:
    """Seconds of each way: the median of turns in which all of them run."""
    given = problem.arrays(samples)
    runs = {}
    for name, function in ways(problem).items():
        if check(problem, function, samples) > 1e-4:
            raise AssertionError(f"{problem.name}, {name}: not the gradients")
        runs[name] = lambda function=function: function(*given)
        for _ in range(3):
            runs[name]()
    timer = clock("cpu")
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(TURNS):
        for name, run in runs.items():
            times[name] += timer.samples(run, 1 / TURNS)
    return {name: statistics.median(found) for name, found in times.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.per_sample",
                                     description=__doc__)
    parser.add_argument("--samples", type=int, default=SAMPLES)
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    given = parser.parse_args(argv)
    found = {}
    for problem in PROBLEMS:
        times = found[problem.name] = measure(problem, given.samples)
        for kind in ("", ", fused"):
            mapped, by_hand = times[f"vmap{kind}"], times[f"by hand{kind}"]
            print(f"{problem.name + kind:36} vmap {mapped * 1e6:9.1f} us   by hand "
                  f"{by_hand * 1e6:9.1f} us   {mapped / by_hand:5.2f}", flush=True)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
