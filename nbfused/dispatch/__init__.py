"""Dispatch of a spec and its arrays to a backend: planning, checks, launch.

`execute` describes the arrays, checks everything, allocates the results with the
caller's library, turns shapes and strides into a loop nest and calls the backend's
launcher.  What repeats is planned once.

=============== ========================================================================
`allocation`    allocation of results, with a second attempt when memory has run out
`bounds`        bounds checks in kernels, under ``NBFUSED_DEBUG=1``
`callers`       generated functions for arguments of given types
`calls`         one call: describe, plan, check, allocate, launch
`dask_arrays`   specs on Dask arrays, chunk by chunk
`direct`        direct calls: functions that repeat a call for arguments of given types
`execute`       `execute`: run a spec on arrays, and return arrays
`foreseen`      calls on arrays that are not there yet: results and launches
`launch_plans`  launch plans: everything a launch needs except addresses and numbers
`launches`      recording of kernel launches
`outputs`       checks of given outputs: shape, dtype, casting, place and overlap
`prepared_call` prepared calls: decided except for addresses, numbers and the stream
`raw`           launches of `Raw` kernels: checks of the caller's grid, block and arrays
`texts`         access to the text that backends compile
`together`      calls on many arrays, prepared together and started as one
`views`         views of arrays
=============== ========================================================================
"""

from .direct import ComposedCalls, direct_call
from .execute import execute
from .launches import trace_launches

__all__ = ["ComposedCalls", "direct_call", "execute", "trace_launches"]
