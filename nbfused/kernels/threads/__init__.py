"""`nf.rawkernel`: a function that every thread of a grid runs, and its derivatives.

- `rawkernel` is the decorator; `launching` has the ways to launch, `extents` checks
  grids and blocks.
- `arguments` takes arguments apart, `views` annotates them.
- `derivatives`: ``fwd`` and ``bwd``, whose pairs `pairs` finds; `second` differentiates
  ``bwd``.
- `recording`: values that derivatives record of a run, and checks of runs.
- `guards`: launches of so many threads.
- `as_op` makes an operation on Variables, with arguments laid out by `leaves`.
- `source` shows texts.
"""
