"""`nf.rawkernel`: a function that every thread of a grid runs, and its derivatives.

- `rawkernel` is the decorator; `launching` has the ways to launch, `extents` checks
  grids and blocks.
- `arguments` takes arguments apart, `views` annotates them; `races` checks promises.
- `derivatives`: ``fwd`` and ``bwd``, whose pairs `pairs` finds; `second` differentiates
  ``bwd``.
- `tapes`: the reverse of kernels that read what they write; `recorder` runs a kernel to
  record that, `ownership` checks that threads keep to their own, `stale` that arrays
  are as they were before.
- `guards`: launches of so many threads.
- `as_op` makes an operation on Variables, with arguments laid out by `leaves`.
- `source` shows texts.
"""
