"""`Reduce` on CUDA: by rows of lanes, or by columns.

`launcher` cuts the work up and launches, `text` has the plans, `skeleton` the kernels
and `slots` what fills them.
"""
