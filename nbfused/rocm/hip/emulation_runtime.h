// The runtime's functions: devices, memory, errors.  Part of emulation.cpp.
#pragma once
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "emulation.h"

namespace nbf_emulation {

// What went wrong last on this thread, and what there is to say of it.
inline __thread hipError_t last_error, told_error;
inline __thread char told[512];

inline hipError_t fail(hipError_t error) { return last_error = error; }

__attribute__((format(printf, 2, 3))) inline hipError_t fail(hipError_t error,
                                                             const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(told, sizeof told, format, arguments);
  va_end(arguments);
  told_error = error;
  return fail(error);
}

// A number from the environment: `otherwise` if nothing is there, 0 if it is no number.
inline uint64_t setting(const char *name, uint64_t otherwise) {
  const char *text = getenv(name);
  if (!text || !*text) return otherwise;
  char *end;
  errno = 0;
  const uint64_t number = strtoull(text, &end, 10);
  return errno || *end || *text == '-' ? 0 : number;
}

inline int devices() {
  return static_cast<int>(setting("NBFUSED_EMULATION_DEVICES", 1));
}
inline uint64_t wave_size() { return setting("NBFUSED_EMULATION_WAVE", 64); }
inline uint64_t memory_of_a_device() {
  const uint64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
  return setting("NBFUSED_EMULATION_MEMORY", pages * page / 2);
}
inline bool is_device(int device) { return device >= 0 && device < devices(); }

inline __thread int current_device;

// The allocations of all devices.
class Memory {
 public:
  std::mutex mutex;

  hipError_t allocate(void **address, size_t size) {
    const std::lock_guard<std::mutex> lock(mutex);
    size_t &used = used_[current_device];
    const size_t most = memory_of_a_device();
    if (used > most || size > most - used || posix_memalign(address, 256, size))
      return fail(hipErrorOutOfMemory);
    memset(*address, 0xFF, size);
    blocks_[static_cast<char *>(*address)] = {size, current_device};
    used += size;
    return hipSuccess;
  }

  hipError_t release(void *address) {
    const std::lock_guard<std::mutex> lock(mutex);
    const auto found = blocks_.find(static_cast<char *>(address));
    if (found == blocks_.end()) return fail(hipErrorInvalidValue);
    used_[found->second.device] -= found->second.size;
    blocks_.erase(found);
    free(address);
    return hipSuccess;
  }

  // The allocation that `at` lies in.
  bool find(const void *at, char *&base, size_t &size) {
    const std::lock_guard<std::mutex> lock(mutex);
    char *const byte = static_cast<char *>(const_cast<void *>(at));
    auto next = blocks_.upper_bound(byte);
    if (next == blocks_.begin()) return false;
    --next;
    base = next->first;
    size = next->second.size;
    return static_cast<size_t>(byte - base) < size;
  }

  bool contains(const void *at, size_t count) {
    char *base;
    size_t size;
    return find(at, base, size) &&
           count <= size - (static_cast<const char *>(at) - base);
  }

  size_t used() {
    const std::lock_guard<std::mutex> lock(mutex);
    return used_[current_device];
  }

 private:
  struct Allocation {
    size_t size;
    int device;
  };
  std::map<char *, Allocation> blocks_;
  std::map<int, size_t> used_;
};

// Never destroyed: threads may outlive the end of `main`.
inline Memory &memory() {
  static Memory &all = *new Memory;
  return all;
}

}  // namespace nbf_emulation

hipError_t hipGetDeviceCount(int *count) {
  using namespace nbf_emulation;
  *count = devices();
  return *count > 0 ? hipSuccess : fail(hipErrorNoDevice);
}

hipError_t hipGetDevice(int *device) {
  using namespace nbf_emulation;
  *device = current_device;
  return devices() > 0 ? hipSuccess : fail(hipErrorNoDevice);
}

hipError_t hipSetDevice(int device) {
  using namespace nbf_emulation;
  if (devices() <= 0) return fail(hipErrorNoDevice);
  if (!is_device(device)) return fail(hipErrorInvalidDevice);
  current_device = device;
  return hipSuccess;
}

hipError_t hipDeviceGetAttribute(int *value, hipDeviceAttribute_t which, int device) {
  using namespace nbf_emulation;
  if (!is_device(device)) return fail(hipErrorInvalidDevice);
  switch (which) {
    case hipDeviceAttributeMultiprocessorCount: *value = 8; break;
    case hipDeviceAttributeWarpSize: *value = static_cast<int>(wave_size()); break;
    case hipDeviceAttributeMaxThreadsPerBlock: *value = 1024; break;
    case hipDeviceAttributeMaxSharedMemoryPerBlock: *value = 64 << 10; break;
    case hipDeviceAttributeComputeCapabilityMajor: *value = 9; break;
    case hipDeviceAttributeComputeCapabilityMinor: *value = 0; break;
    default: return fail(hipErrorInvalidValue);
  }
  return hipSuccess;
}

hipError_t hipDeviceGetPCIBusId(char *text, int size, int device) {
  using namespace nbf_emulation;
  if (!is_device(device)) return fail(hipErrorInvalidDevice);
  snprintf(text, size, "0000:%02x:00.0", device);
  return hipSuccess;
}

hipError_t hipMalloc(void **address, size_t size) {
  using namespace nbf_emulation;
  *address = nullptr;
  if (!is_device(current_device)) return fail(hipErrorNoDevice);
  return size ? memory().allocate(address, size) : hipSuccess;
}

hipError_t hipFree(void *address) {
  return address ? nbf_emulation::memory().release(address) : hipSuccess;
}

hipError_t hipMemGetInfo(size_t *free, size_t *total) {
  using namespace nbf_emulation;
  if (!is_device(current_device)) return fail(hipErrorNoDevice);
  const size_t used = memory().used();
  *total = memory_of_a_device();
  *free = used < *total ? *total - used : 0;
  return hipSuccess;
}

hipError_t hipMemGetAddressRange(hipDeviceptr_t *base, size_t *size,
                                 hipDeviceptr_t at) {
  using namespace nbf_emulation;
  char *found;
  if (!memory().find(at, found, *size)) return fail(hipErrorNotFound);
  *base = found;
  return hipSuccess;
}

hipError_t hipMemcpyAsync(void *to, const void *from, size_t size, hipMemcpyKind kind,
                          hipStream_t) {
  using namespace nbf_emulation;
  if (!is_device(current_device)) return fail(hipErrorNoDevice);
  if (!size) return hipSuccess;
  const bool onto = kind == hipMemcpyHostToDevice || kind == hipMemcpyDeviceToDevice;
  const bool off = kind == hipMemcpyDeviceToHost || kind == hipMemcpyDeviceToDevice;
  if (!to || !from || (onto && !memory().contains(to, size)) ||
      (off && !memory().contains(from, size)))
    return fail(hipErrorInvalidValue);
  memmove(to, from, size);
  return hipSuccess;
}

hipError_t hipMemsetAsync(void *to, int byte, size_t size, hipStream_t) {
  using namespace nbf_emulation;
  if (!size) return hipSuccess;
  if (!memory().contains(to, size)) return fail(hipErrorInvalidValue);
  memset(to, byte, size);
  return hipSuccess;
}

hipError_t hipStreamSynchronize(hipStream_t) { return hipDeviceSynchronize(); }

hipError_t hipDeviceSynchronize() {
  using namespace nbf_emulation;
  return is_device(current_device) ? hipSuccess : fail(hipErrorNoDevice);
}

hipError_t hipGetLastError() {
  const hipError_t error = nbf_emulation::last_error;
  nbf_emulation::last_error = hipSuccess;
  return error;
}

const char *hipGetErrorName(hipError_t error) {
  switch (error) {
    case hipSuccess: return "hipSuccess";
    case hipErrorInvalidValue: return "hipErrorInvalidValue";
    case hipErrorOutOfMemory: return "hipErrorOutOfMemory";
    case hipErrorInvalidConfiguration: return "hipErrorInvalidConfiguration";
    case hipErrorNoDevice: return "hipErrorNoDevice";
    case hipErrorInvalidDevice: return "hipErrorInvalidDevice";
    case hipErrorNotFound: return "hipErrorNotFound";
    case hipErrorLaunchFailure: return "hipErrorLaunchFailure";
    default: return "hipErrorUnknown";
  }
}

// What is known of this thread's last error of that kind, or what the kind is.
const char *hipGetErrorString(hipError_t error) {
  if (error && error == nbf_emulation::told_error) return nbf_emulation::told;
  switch (error) {
    case hipSuccess: return "no error";
    case hipErrorInvalidValue: return "invalid argument";
    case hipErrorOutOfMemory: return "out of memory";
    case hipErrorInvalidConfiguration: return "invalid configuration argument";
    case hipErrorNoDevice: return "no device is emulated";
    case hipErrorInvalidDevice: return "invalid device ordinal";
    case hipErrorNotFound: return "named symbol not found";
    case hipErrorLaunchFailure: return "unspecified launch failure";
    default: return "unknown error";
  }
}
