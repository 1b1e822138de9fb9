"""Matrix products with cuBLASLt's epilogues through nvmath, planned ahead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nvmath.linalg.advanced import Matmul, MatmulComputeType, MatmulEpilog

from ..workload import Workload

__all__ = ["FAMILIES"]

Function = Callable[..., Any]

#: cuBLASLt's gelu is that by tanh; it has no swish.
_EPILOGS = {"relu": MatmulEpilog.RELU_BIAS, "gelu_tanh": MatmulEpilog.GELU_BIAS}


def _linear(work: Workload, arrays: Sequence[Any]) -> Function | None:
    """A linear layer computed transposed, since cuBLASLt adds biases to columns."""
    epilog = _EPILOGS.get(work.options["activation"])
    if work.both or epilog is None:
        return None
    x, weight, bias = arrays
    rows = x.flatten(0, -2) if weight.ndim == 2 else x
    product = Matmul(weight.mT, rows.mT)
    product.plan(epilog=epilog, epilog_inputs={"bias": bias[:, None]})
    product.autotune()
    shape = (*x.shape[:-1], weight.shape[-1])
    return lambda *_: product.execute().mT.reshape(shape)


def _matmul(work: Workload, arrays: Sequence[Any]) -> Function:
    a, b = arrays
    kind = MatmulComputeType.COMPUTE_32F_FAST_TF32 if work.dtype == "tfloat32" \
        else MatmulComputeType.COMPUTE_32F
    product = Matmul(a, b, options={"compute_type": kind})
    product.plan()
    product.autotune()
    return lambda *_: product.execute()


FAMILIES: dict[str, Callable[[Workload, Sequence[Any]], Function | None]] = {
    "linear": _linear, "matmul": _matmul,
}
