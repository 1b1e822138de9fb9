"""Values that a fused function reads and changes besides its arguments.

- `scope` is the key of what it reads from outside; `hidden` passes the arrays of that.
- `containers` looks into lists, dictionaries and objects; `attributes` has the numbers
  of objects that are passed by value, `changes` what is assigned.
- `host_arrays` tells the arrays that NumPy makes of numbers from others, `made_tensors`
  those of PyTorch; `memories` notes them, `snapshots` what was read of arrays.
- `bracketed` joins the items of ``np.r_`` and ``np.c_``.
- `watching` notices clocks, files and random numbers; `lines` finds the user's line.
"""
