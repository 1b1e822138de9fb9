"""Recorded calls of functions, and what stands for their arguments.

`batched`        the placeholder for one sample of many, for `vmap`
`keeping`        results that a checkpoint keeps although it computes again
`samples`        a spec run for many samples at once, by its own rule
`recorded_call`  the recorded call of a function that is differentiated, its pullback
"""
