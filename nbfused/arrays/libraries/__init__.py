"""Arrays of other libraries: one module for each, imported with its first array.

============== =========================================================================
`cupy`         CuPy arrays, on CUDA or ROCm devices
`dask`         Dask arrays, which are lazy, in chunks of NumPy or CuPy
`dlpack`       import and export of DLPack capsules, through `ctypes`
`interface`    arrays of other libraries, by DLPack or ``__cuda_array_interface__``
`jax`          JAX arrays: immutable, on the host and on CUDA or ROCm devices
`numba`        Numba's device arrays (``numba.cuda.to_device``)
`numpy`        NumPy arrays, and NumPy views of host arrays of any library
`torch`        PyTorch tensors, on the host and on CUDA or ROCm devices
`torch_inside` functions of PyTorch that are not public, where they serve
`xla`          buffers of XLA on a device, on which a handler of its works
============== =========================================================================
"""
