"""Public names whose import needs the language, the tape and the ops.

They are imported together, when one of them is first used: a program that makes an
array on a GPU waits for the driver meanwhile.
"""

from . import cache, ops
from .autograd import (
    Function,
    Variable,
    checkpoint,
    custom_jvp,
    custom_vjp,
    elementwise_grad,
    grad,
    hessian,
    hvp,
    jacfwd,
    jacobian,
    jacrev,
    jvp,
    linearize,
    no_grad,
    stop_gradient,
    value_and_grad,
    vjp,
    vmap,
)
from .dispatch import trace_launches
from .op import contraction, elementwise, func, index, reduction, row, size, stage
from .ops import empty_like, fill, full_like, ones_like, zeros_like
from .scalar.language import composite, threads
from .scalar.language import names as language
from .scalar.language.composite import *  # noqa: F403
from .scalar.language.names import *  # noqa: F403
from .scalar.language.threads import *  # noqa: F403
from .scalar.source.static import literal, local, max_iters, unroll

__all__ = [
    "Function", "Variable", "cache", "checkpoint", "contraction", "custom_jvp",
    "custom_vjp", "elementwise", "elementwise_grad", "empty_like", "fill", "full_like",
    "func", "grad", "hessian", "hvp", "index", "jacfwd", "jacobian", "jacrev", "jvp",
    "linearize", "literal", "local", "max_iters", "no_grad", "ones_like", "ops",
    "reduction", "row", "size", "stage", "stop_gradient", "trace_launches", "unroll",
    "value_and_grad", "vjp", "vmap", "zeros_like",
    *language.__all__, *threads.__all__, *composite.__all__,
]
