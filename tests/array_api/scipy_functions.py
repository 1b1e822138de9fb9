"""SciPy's functions that take arrays of other libraries, on Variables.

Values are those on NumPy arrays, gradients those of finite differences.  It runs in a
process of its own, as SciPy reads ``SCIPY_ARRAY_API`` when it is imported:
``SCIPY_ARRAY_API=1 python -m tests.array_api.scipy_functions`` prints the errors, with
``interpreted`` behind it those of interpreted kernels.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from importlib import import_module
from typing import Any

import numpy as np

import nbfused as nf
from tests.plugin.nbfused_interpreter import InterpreterBackend

__all__ = ["FUNCTIONS", "VALUES"]

RNG = np.random.default_rng(3)
MATRIX, VECTOR, LONG = RNG.normal(size=(4, 5)), RNG.normal(size=7), RNG.normal(size=25)
POSITIVE, SHARES = RNG.uniform(0.5, 2.0, 7), RNG.uniform(0.2, 0.9, (4, 5))
STEP = 1e-6


class _Module:
    """A module of SciPy, imported when a function of it is called."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(f"scipy.{self._name}"), name)


cluster, differentiate, elementwise, fft, integrate, optimize, signal = map(_Module, (
    "cluster.vq", "differentiate", "optimize.elementwise", "fft", "integrate",
    "optimize", "signal"))
special, stats, transform = map(_Module, ("special", "stats", "spatial.transform"))

#: A function of one array, and the array.
FUNCTIONS: dict[str, tuple[Callable[[Any], Any], np.ndarray]] = {
    "special.logsumexp": (lambda x: special.logsumexp(x, axis=1), MATRIX),
    "special.softmax": (lambda x: special.softmax(x, axis=0), MATRIX),
    "special.log_softmax": (lambda x: special.log_softmax(x, axis=1), MATRIX),
    "special.xlogy": (lambda x: special.xlogy(x, x + 1.0), SHARES),
    "special.rel_entr": (lambda x: special.rel_entr(x, x * x), SHARES),
    "special.entr": (lambda x: special.entr(x), SHARES),
    "special.expit": (lambda x: special.expit(x), MATRIX),
    "special.logit": (lambda x: special.logit(x), SHARES),
    "special.erf": (lambda x: special.erf(x), MATRIX),
    "special.erfinv": (lambda x: special.erfinv(x), SHARES),
    "special.gammaln": (lambda x: special.gammaln(x), POSITIVE),
    "special.psi": (lambda x: special.psi(x), POSITIVE),
    "special.gamma": (lambda x: special.gamma(x), POSITIVE),
    "special.betaln": (lambda x: special.betaln(x, x + 1.0), POSITIVE),
    "special.i0": (lambda x: special.i0(x), MATRIX),
    "special.i0e": (lambda x: special.i0e(x), MATRIX),
    "special.ndtr": (lambda x: special.ndtr(x), MATRIX),
    "special.log_ndtr": (lambda x: special.log_ndtr(x), 3 * MATRIX),
    "special.ndtri": (lambda x: special.ndtri(x), SHARES),
    "special.betainc": (lambda x: special.betainc(2.0, 3.0, x), SHARES),
    "special.gammainc": (lambda x: special.gammainc(2.0, x), POSITIVE),
    "special.gammaincc": (lambda x: special.gammaincc(2.0, x), POSITIVE),
    "special.stdtr": (lambda x: special.stdtr(3.0, x), VECTOR),
    "stats.gmean": (lambda x: stats.gmean(x), POSITIVE),
    "stats.hmean": (lambda x: stats.hmean(x), POSITIVE),
    "stats.pmean": (lambda x: stats.pmean(x, 3), POSITIVE),
    "stats.skew": (lambda x: stats.skew(x), VECTOR),
    "stats.kurtosis": (lambda x: stats.kurtosis(x), VECTOR),
    "stats.moment": (lambda x: stats.moment(x, 3), VECTOR),
    "stats.zscore": (lambda x: stats.zscore(x), VECTOR),
    "stats.gzscore": (lambda x: stats.gzscore(x), POSITIVE),
    "stats.zmap": (lambda x: stats.zmap(x, x + 1.0), VECTOR),
    "stats.variation": (lambda x: stats.variation(x), POSITIVE),
    "stats.sem": (lambda x: stats.sem(x), VECTOR),
    "stats.entropy": (lambda x: stats.entropy(x), POSITIVE),
    "stats.differential_entropy": (
        lambda x: stats.differential_entropy(x), VECTOR),
    "stats.pearsonr": (lambda x: stats.pearsonr(x, x**2).statistic, VECTOR),
    "stats.ttest_1samp": (lambda x: stats.ttest_1samp(x, 0.1).statistic, VECTOR),
    "stats.ttest_1samp pvalue": (
        lambda x: stats.ttest_1samp(x, 0.1).pvalue, VECTOR),
    "stats.ttest_ind": (lambda x: stats.ttest_ind(x, x**2).statistic, VECTOR),
    "stats.ttest_rel": (lambda x: stats.ttest_rel(x, x**2).statistic, VECTOR),
    "stats.tmean": (lambda x: stats.tmean(x), VECTOR),
    "stats.tvar": (lambda x: stats.tvar(x), VECTOR),
    "stats.tstd": (lambda x: stats.tstd(x), VECTOR),
    "stats.describe": (lambda x: stats.describe(x).kurtosis, VECTOR),
    "stats.circmean": (lambda x: stats.circmean(x), VECTOR),
    "stats.circvar": (lambda x: stats.circvar(x), VECTOR),
    "stats.circstd": (lambda x: stats.circstd(x), VECTOR),
    "stats.directional_stats": (
        lambda x: stats.directional_stats(x).mean_direction, MATRIX),
    "stats.bartlett": (lambda x: stats.bartlett(x, x**2).statistic, VECTOR),
    "stats.chisquare": (lambda x: stats.chisquare(x).statistic, POSITIVE),
    "stats.power_divergence": (
        lambda x: stats.power_divergence(x, lambda_=0.5).statistic, POSITIVE),
    "stats.jarque_bera": (lambda x: stats.jarque_bera(x).statistic, VECTOR),
    "stats.skewtest": (lambda x: stats.skewtest(x).statistic, LONG),
    "stats.kurtosistest": (lambda x: stats.kurtosistest(x).statistic, LONG),
    "stats.normaltest": (lambda x: stats.normaltest(x).statistic, LONG),
    "stats.combine_pvalues": (
        lambda x: stats.combine_pvalues(x).statistic, SHARES[0]),
    "stats.quantile": (lambda x: stats.quantile(x, 0.3), VECTOR),
    "stats.boxcox_llf": (lambda x: stats.boxcox_llf(1.2, x), POSITIVE),
    "stats.yeojohnson_llf": (lambda x: stats.yeojohnson_llf(1.2, x), VECTOR),
    "stats.trim_mean": (lambda x: stats.trim_mean(x, 0.1), VECTOR),
    "stats.iqr": (lambda x: stats.iqr(x), VECTOR),
    "stats.gstd": (lambda x: stats.gstd(x), POSITIVE),
    "stats.kstat": (lambda x: stats.kstat(x, 3), VECTOR),
    "stats.lmoment": (lambda x: stats.lmoment(x), VECTOR),
    "stats.levene": (lambda x: stats.levene(x, x**2).statistic, VECTOR),
    "stats.f_oneway": (lambda x: stats.f_oneway(x, x**2).statistic, VECTOR),
    "stats.alexandergovern": (
        lambda x: stats.alexandergovern(x, x**2).statistic, VECTOR),
    "stats.median_abs_deviation": (
        lambda x: stats.median_abs_deviation(x), VECTOR),
    "integrate.trapezoid": (lambda x: integrate.trapezoid(x), VECTOR),
    "integrate.cumulative_trapezoid": (
        lambda x: integrate.cumulative_trapezoid(x), VECTOR),
    "integrate.cumulative_simpson": (
        lambda x: integrate.cumulative_simpson(x), VECTOR),
    "fft.fftshift": (lambda x: fft.fftshift(x), VECTOR),
    "integrate.cubature": (lambda x: integrate.cubature(
        lambda t: (t * t).sum(axis=-1), 0 * x[:2], x[:2] ** 2).estimate, POSITIVE),
    "differentiate.derivative": (
        lambda x: differentiate.derivative(lambda t: t**3, x).df, POSITIVE),
    "optimize.find_root": (lambda x: elementwise.find_root(
        lambda t, c: t**3 - c, (0 * x, 0 * x + 2.0), args=(x,)).x, POSITIVE),
    "cluster.whiten": (lambda x: cluster.whiten(x), MATRIX),
    "optimize.rosen": (lambda x: optimize.rosen(x), VECTOR),
    "Rotation.from_rotvec": (
        lambda x: transform.Rotation.from_rotvec(x).as_matrix(), MATRIX[:, :3]),
}

#: Those of which only values are compared.
VALUES: dict[str, tuple[Callable[[Any], Any], np.ndarray]] = {
    "fft.fft": (lambda x: fft.fft(x), VECTOR),
    "fft.irfft": (lambda x: fft.irfft(fft.rfft(x)), LONG[:8]),
    "signal.hilbert": (lambda x: signal.hilbert(x), VECTOR),
    "stats.mode": (lambda x: stats.mode(x).count, POSITIVE),
    "stats.rankdata": (lambda x: stats.rankdata(x), VECTOR),
    "stats.skewtest pvalue": (lambda x: stats.skewtest(x).pvalue, LONG),
    "stats.chisquare pvalue": (lambda x: stats.chisquare(x).pvalue, POSITIVE),
    "stats.pearsonr pvalue": (lambda x: stats.pearsonr(x, x**2).pvalue, VECTOR),
    "optimize.find_minimum": (lambda x: elementwise.find_minimum(
        lambda t, c: (t - c) ** 2, (x - 2.0, x - 0.5, x + 1.0), args=(x,)).x, POSITIVE),
    "integrate.tanhsinh": (lambda x: integrate.tanhsinh(
        lambda t: t**2, 0 * x, x).integral, POSITIVE),
}


def check(name: str) -> None:
    """Compare the value of a function, and its gradient along a random direction."""
    function, data = {**FUNCTIONS, **VALUES}[name]
    x = nf.Variable(data.copy(), requires_grad=name in FUNCTIONS)
    found, expected = function(x), np.asarray(function(data))
    assert isinstance(found, nf.Variable), f"it gave a {type(found).__name__}"
    np.testing.assert_allclose(found.to_numpy(), expected, 1e-9, 1e-11)
    if name in VALUES:
        return
    rng = np.random.default_rng(7)
    weights, direction = rng.normal(size=found.shape), rng.normal(size=data.shape)
    (found * weights).sum().backward()
    ends = [np.sum(np.asarray(function(data + sign * STEP * direction)) * weights)
            for sign in (1, -1)]
    np.testing.assert_allclose(np.sum(x.grad * direction),
                               (ends[0] - ends[1]) / (2 * STEP), 2e-5, 2e-7)


def errors() -> dict[str, str]:
    """What each function raises; nothing if it is right."""
    found = {}
    for name in (*FUNCTIONS, *VALUES):
        try:
            check(name)
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # SciPy's, of small samples
    with nf.use_backend(InterpreterBackend()) if "interpreted" in sys.argv \
            else nullcontext():
        print(json.dumps(errors()))
