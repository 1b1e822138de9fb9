"""Checks of ops, backends and gradients, also for authors of plugins.

=============== =============================================================
`ahead`         the built-in ops' kernels, compiled ahead of time
`conformance`   every op on a backend, against NumPy in float64
`recorded`      the kernels that the conformance suite would launch
`recorded_cuda` recording of CUDA kernels without a device: compiled, not run
`sampling`      test arrays: values from a domain, in every layout of strides
`selftest`      ``python -m nbfused selftest``: a sample of everything, in a minute
`user_kernels`  kernels as users write them, compared with NumPy
=============== =============================================================
"""

from ..autograd.check_backward import check_backward
from ..autograd.gradcheck import GradcheckError, gradcheck, gradients
from .conformance import Check, assert_matches_reference, checks, run

__all__ = [
    "Check", "GradcheckError", "assert_matches_reference", "check_backward", "checks",
    "gradcheck", "gradients", "run",
]
