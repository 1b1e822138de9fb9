"""Recorded calls of functions, and what stands for their arguments.

`batched`          the placeholder for one sample of many, for `vmap`
`batched_changes`  its changes in place
`keeping`          results that a checkpoint keeps although it computes again
`recorded_call`    the recorded call of a function that is differentiated, its pullback
`replays`          the direct calls of a mapped function, without calling it
`sample_plans`     direct calls of specs on samples
`samples`          a spec run for many samples at once, by its own rule
`tracked`          arrays that another library follows, as arguments of our functions
"""
