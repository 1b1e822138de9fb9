"""Choices among kernels: measured, kept on disk, remembered.

=============== ========================================================================
`tuner`         chooses among the candidates of a launcher
`timer`         times of launches, by events
`choices`       what was measured, in a JSON file for each model of GPU
`bounded_cache` a dictionary of bounded size
=============== ========================================================================
"""
