"""`Reduce` on CUDA: by rows of lanes, or by columns.

`launcher` cuts the work up and launches, `text` has the plans, `skeleton` the kernels
and `slots` what fills them.  `parts` merges the states of several reductions in one,
`folded` reads narrow rows as wide ones.  `of_arrays` is for arrays that another
launcher has.
"""
