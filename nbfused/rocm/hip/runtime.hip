// The runtime behind a C ABI: devices, memory, streams, launches.  Built once for each
// compiler; what Python calls is declared in `runtime/device.py`.  Every function returns the
// runtime's error code unless its comment says otherwise.
#include "portable.h"

namespace {

// Numbers of our own: the runtimes' enumerators have changed between versions.
const hipDeviceAttribute_t attributes[] = {
    hipDeviceAttributeMultiprocessorCount,
    hipDeviceAttributeWarpSize,
    hipDeviceAttributeMaxThreadsPerBlock,
    hipDeviceAttributeMaxSharedMemoryPerBlock,
    hipDeviceAttributeComputeCapabilityMajor,
    hipDeviceAttributeComputeCapabilityMinor,
};
const hipMemcpyKind kinds[] = {hipMemcpyHostToDevice, hipMemcpyDeviceToHost,
                               hipMemcpyDeviceToDevice};

// Makes a device current in this thread, and undoes that.
struct Current {
  int before = -1;
  hipError_t error;

  explicit Current(int device) {
    error = hipGetDevice(&before);
    if (error != hipSuccess || before == device) {
      before = -1;
      return;
    }
    error = hipSetDevice(device);
  }
  ~Current() {
    if (before >= 0) static_cast<void>(hipSetDevice(before));
  }
};

int code(hipError_t error) {
  // A refusal that is reported here must not be found again by the next launch.
  if (error != hipSuccess) static_cast<void>(hipGetLastError());
  return static_cast<int>(error);
}

}  // namespace

// "amd", "nvidia" or "emulation"; not a code.
NBF_API const char *nbf_platform(void) {
#if defined(NBF_EMULATION)
  return "emulation";
#elif defined(__CUDACC__)
  return "nvidia";
#else
  return "amd";
#endif
}

NBF_API const char *nbf_error_name(int error) {
  return hipGetErrorName(static_cast<hipError_t>(error));
}

NBF_API const char *nbf_error_string(int error) {
  return hipGetErrorString(static_cast<hipError_t>(error));
}

NBF_API int nbf_device_count(int *count) { return code(hipGetDeviceCount(count)); }

NBF_API int nbf_attribute(int *value, int which, int device) {
  return code(hipDeviceGetAttribute(value, attributes[which], device));
}

NBF_API int nbf_pci_bus_id(char *text, int size, int device) {
  return code(hipDeviceGetPCIBusId(text, size, device));
}

NBF_API int nbf_memory(int device, size_t *free, size_t *total) {
  const Current current(device);
  if (current.error != hipSuccess) return code(current.error);
  return code(hipMemGetInfo(free, total));
}

NBF_API int nbf_malloc(int device, void **address, size_t size) {
  const Current current(device);
  if (current.error != hipSuccess) return code(current.error);
  return code(hipMalloc(address, size));
}

NBF_API int nbf_free(int device, void *address) {
  const Current current(device);
  if (current.error != hipSuccess) return code(current.error);
  return code(hipFree(address));
}

// In the order of `stream`.  Copies that the host takes part in are done on return:
// the host's memory may then be changed, or read.
NBF_API int nbf_copy(int device, void *to, const void *from, size_t size, int kind,
                     void *stream) {
  const Current current(device);
  if (current.error != hipSuccess) return code(current.error);
  const hipStream_t queue = static_cast<hipStream_t>(stream);
  const hipError_t error = hipMemcpyAsync(to, from, size, kinds[kind], queue);
  if (error != hipSuccess || kinds[kind] == hipMemcpyDeviceToDevice) return code(error);
  return code(hipStreamSynchronize(queue));
}

NBF_API int nbf_stream_synchronize(int device, void *stream) {
  const Current current(device);
  if (current.error != hipSuccess) return code(current.error);
  return code(hipStreamSynchronize(static_cast<hipStream_t>(stream)));
}

NBF_API int nbf_device_synchronize(int device) {
  const Current current(device);
  if (current.error != hipSuccess) return code(current.error);
  return code(hipDeviceSynchronize());
}

// The first of `count` addresses that the runtime does not know, or `count`: a kernel
// that reads there would end the process.  Not a code.
NBF_API int nbf_first_unknown(void *const *addresses, int count) {
  for (int k = 0; k < count; ++k) {
    hipDeviceptr_t base;
    size_t size;
    if (hipMemGetAddressRange(&base, &size, static_cast<hipDeviceptr_t>(addresses[k])) !=
        hipSuccess) {
      static_cast<void>(hipGetLastError());
      return k;
    }
  }
  return count;
}

typedef int (*Entry)(const unsigned *grid, const unsigned *block, size_t shared,
                     void *stream, const void *words);

// Starts a kernel; `extents` are those of the grid, then of a block.  Without them its
// attributes come back in `words`.
NBF_API int nbf_launch(int device, Entry entry, const unsigned *extents, size_t shared,
                       void *stream, const void *words) {
  const Current current(device);
  if (current.error != hipSuccess) return code(current.error);
  return entry(extents, extents ? extents + 3 : nullptr, shared, stream, words);
}
