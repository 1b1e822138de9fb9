"""`nf.fuse`: functions of arrays, traced once and run in few launches.

- `fuse` is the decorator, `fused` what it makes; `arguments` gives the key of a call,
  `outside` is what else the function depends on.
- `trace` records a function on `symbols`; `stores` are what it stores into them,
  `parts` into parts of them, `results` what it returns; `ufuncs`, `functions` and
  `pytorch` are NumPy's and PyTorch's functions on them; `calling` are the calls of
  other functions, `constants` the numbers that are known while tracing.
- `program` is what was traced, as launches, `kept` all of a function; `explaining`
  shows them, `ahead` compiles their kernels side by side.
- `plans` are programs for arguments of one layout; `readers` find the plan of arguments
  that are like earlier ones.
- `compiled_calls` are those that PyTorch compiles or JAX traces; `buffers` are programs
  that run on what JAX hands over.
"""
