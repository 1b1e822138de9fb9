"""Operations on tensors that PyTorch traces or transforms, as calls of its ops."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from ...arrays.detect import is_array
from ...errors import KernelTypeError
from ...specs import Spec, View
from ..calls.samples import run_batched
from ..torch_bridge import in_memory
from .identity import Call, call_of
from .torch_ops import TorchOp, define, exact, types_of
from .torch_views import run_view

__all__ = ["check_later", "run_samples", "run_symbolic"]


def run_symbolic(spec: Spec, inputs: Sequence[Any], out: Sequence[Any] | None,
                 options: dict[str, Any]) -> tuple[Any, ...]:
    """Run a spec on tensors of which some are symbolic.

    Results that are to be stored in given tensors are copied there: PyTorch knows then
    what has changed.
    """
    names = options.get("names") or [str(k) for k in range(len(inputs))]
    tensor = sys.modules["torch"].Tensor
    for x, name in zip(inputs, names, strict=False):
        if is_array(x) and not isinstance(x, (tensor, np.generic)):
            raise KernelTypeError(
                f"{spec.name}: {name} is a {type(x).__name__} beside a tensor that "
                "PyTorch traces; expected tensors only: use torch.asarray")
    if not any(isinstance(x, tensor) for x in inputs):
        raise KernelTypeError(
            f"{spec.name}: PyTorch traces 'out', and no input is a tensor; store into "
            "it by PyTorch's own functions, such as x.fill_(value)")
    if spec.launches:
        made = _op(spec, inputs, options["dtypes"]).recorded(
            *[x.item() if isinstance(x, np.generic) else x for x in inputs])
    else:
        made = run_view(cast(View, spec), inputs)
    results = made if isinstance(made, (tuple, list)) else (made,)
    if out is None:
        return tuple(results)
    return tuple([x if o is None else o.copy_(x)
                  for o, x in zip(out, results, strict=True)])


def _op(spec: Spec, inputs: Sequence[Any], dtypes: Any) -> TorchOp:
    """The op of such a call."""
    asked = None if dtypes is None else tuple(
        [None if d is None else np.dtype(d) for d in dtypes])
    tensor = sys.modules["torch"].Tensor
    key = asked, tuple([x.dtype if isinstance(x, np.generic) else isinstance(x, tensor)
                        for x in inputs])
    known: dict[Any, TorchOp] = spec.__dict__.setdefault("_torch_ops", {})
    found = known.get(key)
    if found is None:
        count = len(spec.result_types(types_of(inputs)))
        found = known[key] = define(call_of(spec, inputs, asked, count))
    return found


def check_later(x: Any, low: int, high: int, message: str, ignored: int | None) -> None:
    """Check the elements of a tensor of integers when there are some."""
    torch = sys.modules["torch"]
    inside = (x >= low) & (x < high)
    if ignored is not None:
        inside = inside | (x == ignored)
    while torch._C._functorch.is_functorch_wrapped_tensor(inside):
        inside = torch._C._functorch.get_unwrapped(inside)
    torch._assert_async(inside.all(), f"{message}: expected values in [{low}, {high})")


def run_samples(call: Call, size: int, in_dims: Sequence[int | None],
                args: Sequence[Any]) -> list[Any]:
    """Run a call for `size` samples, which lie along `in_dims`."""
    tensor = sys.modules["torch"].Tensor
    held = [in_memory(x) if isinstance(x, tensor) else x for x in args]
    held = [x if dim is None else x.movedim(dim, 0)
            for x, dim in zip(call.values(held), in_dims, strict=True)]
    has = tuple([dim is not None for dim in in_dims])
    shapes = tuple([exact(getattr(x, "shape", ()))[some:]
                    for x, some in zip(held, has, strict=True)])
    return run_batched(call.spec, held, has, shapes, size, call.asked)
