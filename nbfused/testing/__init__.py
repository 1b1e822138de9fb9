"""Checks for ops, backends and gradients: public, for authors of plugins too."""

from .check_backward import check_backward
from .conformance import Check, assert_matches_reference, checks, run
from .gradcheck import GradcheckError, gradcheck, gradients

__all__ = [
    "Check", "GradcheckError", "assert_matches_reference", "check_backward", "checks",
    "gradcheck", "gradients", "run",
]
