"""Instructions that Numba's Python lacks, as functions of kernel text.

`intrinsics` is the namespace, of which the others are parts: `accesses`, `approximate`
(functions without branches), `mma`, `mma_copies` and `hopper*` for products, `row_*`
for rows, `raw_intrinsics` for users' kernels.  `inline_ptx` makes functions of
instructions.  `engines` has facts about products that plans need and imports no Numba.
"""
