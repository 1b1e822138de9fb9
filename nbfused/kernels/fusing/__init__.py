"""`nf.fuse`: functions of arrays, traced once and run in few launches.

- `fuse` is the decorator; `arguments` gives the key of a call.
- `trace` records a function on the symbols of `symbols`, and of `tensors` for PyTorch;
  `ufuncs`, `functions` and `torch` are NumPy's and PyTorch's functions on them.
- `program` is what runs at each call; `source` shows it.
"""
