// Raw: a kernel of threads that index their arrays themselves.  Its text has the
// function `thread(w)`; here is what that needs besides kernel.h.
#pragma once
#include "kernel.h"

namespace nbf {

// This thread among the 32 that shuffle with one another.
NBF_DEVICE int64_t lane() {
  const unsigned row = threadIdx.z * blockDim.y + threadIdx.y;
  return (row * blockDim.x + threadIdx.x) % 32;
}

// An array of the block, from a byte of the dynamic shared memory on.
template <class T> NBF_DEVICE T *shared_array(int64_t at) {
  return reinterpret_cast<T *>(shared() + at);
}

}  // namespace nbf
