"""Derivatives of programs on arrays: `Variable`, the tape, the transforms.

`apply` is the one function that ops call: it runs a spec and, where an input is
tracked, leaves a node on the tape.  Derivatives are specs (`specs.Pullback`), so
nothing here knows an op.

================ ======================================================================
`calls`          recorded calls of functions, and what stands for their arguments
`check_backward` gradient checks of hand-written rules on a recorded tape
`compilers`      operations inside the compilers of PyTorch and JAX
`custom`         `Function` and other nodes whose pullback is Python code
`gradcheck`      `gradcheck`: derivatives compared with finite differences in float64
`gradients`      gradients of callers: checked, and in memory of their own
`graph`          the autograd graph, and the arrays that have a place in it
`nodes`          the graph node of a spec: the arrays it saves, and its pullback
`numpy_api`      NumPy's functions, ufuncs and methods on Variables
`recipes`        the steps of pullbacks, prepared once
`recording`      the recording switch of the tape: `no_grad`, and the modes used inside
`rules`          `custom_vjp` and `checkpoint`
`tape`           `apply`, which runs and records every operation, and the backward pass
`torch_bridge`   nodes of PyTorch's autograd for our operations on its tensors
`transforms`     transforms of functions: derivatives, and functions of many samples
`updates`        updates of the arrays of trees, in place: one start for all leaves
`variable`       `Variable`: an array that can require a gradient
`versions`       detection of in-place writes to saved arrays, by version counters
`walk`           the backward walk over the graph
================ ======================================================================
"""

from typing import Any

from .compilers.torch_tangents import FUNCTIONS
from .custom import CALL_WHOLE, Function
from .recording import no_grad
from .rules import checkpoint, custom_vjp
from .tape import apply
from .transforms import (
    custom_jvp,
    elementwise_grad,
    grad,
    hessian,
    hvp,
    jacfwd,
    jacobian,
    jacrev,
    jvp,
    linearize,
    stop_gradient,
    value_and_grad,
    vjp,
    vmap,
)
from .variable import RULE_CHECKS, Variable

__all__ = [
    "Function", "Variable", "apply", "checkpoint", "custom_jvp", "custom_vjp",
    "elementwise_grad", "grad", "hessian", "hvp", "jacfwd", "jacobian", "jacrev", "jvp",
    "linearize", "no_grad", "stop_gradient", "value_and_grad", "vjp", "vmap",
]


def _check_rules(output: Variable) -> None:
    from .check_backward import check_backward

    check_backward(output)


def _call_whole(*call: Any) -> Any:
    from .calls.tracked import call_whole

    return call_whole(*call)


def _function_op(*parts: Any) -> Any:
    from .compilers.torch_callables import CallableOp

    return CallableOp(*parts)


RULE_CHECKS.append(_check_rules)
CALL_WHOLE.append(_call_whole)
FUNCTIONS.append(_function_op)
