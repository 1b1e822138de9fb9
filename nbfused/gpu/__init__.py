"""The parts of a GPU backend that do not depend on the maker of the device.

=================== ====================================================================
`backend`           owning arrays and devices: `GpuBackend`, the base of both backends
`devices`           devices by number, their temporary memory, errors of their drivers
`arrays`            arrays in a device's memory, copies to and from the host
`operands`          the arrays of a kernel, by number; alignment, all arguments
`map_layout`        operands of a Map, and the strides that its kernels take
`reduce_layout`     operands of a Reduce, and chunks of its elements
`row_layout`        operands of a Row, and the partial sums of its blocks
`contract_layout`   operands of a Contract
`raw_layout`        arguments and shared memory of a raw kernel
`raw_kernel`        what stands for a raw kernel's parameters, and its launches
`arguments`         arguments of a launch, packed as 8-byte words
`programs`          compiled kernels by their plans
=================== ====================================================================

A backend adds a driver, texts of kernels in its language, and the choice among them.
"""
