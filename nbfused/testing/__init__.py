"""Checks for ops, backends and gradients: public, for authors of plugins too."""

from ..autograd.check_backward import check_backward
from ..autograd.gradcheck import GradcheckError, gradcheck, gradients
from .conformance import Check, assert_matches_reference, checks, run

__all__ = [
    "Check", "GradcheckError", "assert_matches_reference", "check_backward", "checks",
    "gradcheck", "gradients", "run",
]
