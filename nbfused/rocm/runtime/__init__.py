"""Devices, libraries of kernels and their launches.

============= ==========================================================================
`device`      devices and their memory, through the C ABI of ``hip/runtime.hip``
`hip_library` the HIP runtime that a process uses
`topology`    architectures of devices, as the kernel driver tells them
`pool`        memory that is used again instead of being freed
`launch`      kernels as callables: `Program`
============= ==========================================================================
"""
