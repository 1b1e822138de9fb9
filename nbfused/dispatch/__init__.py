"""From a spec and arrays to a launch: what is neither an op's business nor a backend's.

`execute` describes the arrays, checks everything, allocates the results with the
caller's library, turns shapes and strides into a loop nest and calls the backend's
launcher.  What repeats is planned once (`plans`).
"""

from .calls import direct_call
from .execute import execute
from .launches import trace_launches

__all__ = ["direct_call", "execute", "trace_launches"]
