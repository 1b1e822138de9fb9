"""`nf.rawkernel`: a function that every thread of a grid runs, and its derivatives.

- `rawkernel` is the decorator; `launching` has the ways to launch, `extents` checks
  grids and blocks.
- `arguments` takes arguments apart, `views` annotates them; `races` checks promises.
- `derivatives`: ``fwd`` and ``bwd``, whose pairs `pairs` finds; `second` differentiates
  ``bwd``.
- `as_op` makes an operation on Variables, with arguments laid out by `leaves`.
- `source` shows texts.
"""
