"""The text that the skeletons of ``rocm/hip`` take.

============== =========================================================================
`source`       lines and parameters of a kernel, printed functions
`states`       the state of a reduction
`early_exits`  threads that return before a barrier which others reach
`reduce`       the struct of a Reduce, and its plan
`row`          the structs of a Row; `row_plan` its plan, `row_sums` its sums over rows
`contract`     the struct of a Contract, and its tiles
============== =========================================================================
"""
