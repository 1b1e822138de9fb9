"""`nf.fuse`: functions of arrays, traced once and run in few launches.

- `fuse` is the decorator; `arguments` gives the key of a call, `scope` that of
  what the function reads outside.
- `trace` records a function on the `symbols` of arrays (`tensors` for PyTorch) and of
  `numbers`; `parts` are writes into parts of them; `ufuncs`, `functions` and
  `torch` are functions of NumPy and PyTorch on them.
- `program` is what was traced, as launches; `source` and `explain` show them.
- `plans` are programs for arguments of one layout; `readers` find the plan of arguments
  that are like earlier ones.
"""
