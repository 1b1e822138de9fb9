"""`nf.rawkernel`: a function that every thread of a grid runs, and its derivatives.

- `rawkernel` is the decorator; `launching` has the ways to launch, `extents` checks
  grids and blocks, `known_launches` remembers.
- `arguments` takes arguments apart, `views` annotates them.
- `derivatives`: ``fwd`` and ``bwd``, whose pairs `pairs` finds; `second` differentiates
  ``bwd``.
- `differentiable`: kernels that have these, ``fwd`` of another kernel among them.
- `recording`: values that derivatives record of a run, and checks of runs.
- `guards`: launches of so many threads; `shared_sizes`: shared arrays of the bytes that
  a launch gives.
- `taping`: launches on Variables, and operations made of kernels.
- `source` shows texts.
"""
