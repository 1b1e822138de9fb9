// Kernels that are right, and the same with a mistake that a GPU may forgive.
#include "portable.h"

namespace {

constexpr int THREADS = 128;

// Each block's elements in reverse order.  Mistake: no barrier before they are read.
template <bool WRONG> __global__ void missing_barrier(const float *x, float *y) {
  __shared__ float tile[THREADS];
  const int t = threadIdx.x, first = blockIdx.x * THREADS;
  tile[t] = x[first + t];
  if (!WRONG) __syncthreads();
  y[first + t] = tile[THREADS - 1 - t];
}

// A sum over the tiles of what is beside each thread.  Mistake: a tile is written while
// others still read the one before.
template <bool WRONG> __global__ void missing_second_barrier(const float *x, float *y) {
  __shared__ float tile[THREADS];
  const int t = threadIdx.x;
  float sum = 0;
  for (int k = 0; k < 4; ++k) {
    tile[t] = x[k * THREADS + t];
    __syncthreads();
    sum += tile[(t + 1) % THREADS];
    if (!WRONG) __syncthreads();
  }
  y[t] = sum;
}

// Mistake: a barrier that only the threads of a branch reach.
template <bool WRONG> __global__ void barrier_in_a_branch(const float *x, float *y) {
  __shared__ float tile[THREADS];
  const int t = threadIdx.x;
  tile[t] = x[t];
  if (!WRONG || t < 16) __syncthreads();
  y[t] = tile[t ^ 1];
}

// Mistake: threads wait at different barriers.
template <bool WRONG> __global__ void divergent_barrier(const float *x, float *y) {
  __shared__ float tile[THREADS];
  const int t = threadIdx.x;
  tile[t] = x[t];
  if (WRONG && t % 2) {
    __syncthreads();
    y[t] = tile[t ^ 1];
  } else {
    __syncthreads();
    y[t] = tile[t ^ 1];
  }
}

// Mistake: threads pass a barrier in a loop as often as each of them likes.
template <bool WRONG> __global__ void barrier_in_a_loop(const float *x, float *y) {
  __shared__ float tile[THREADS];
  const int t = threadIdx.x;
  tile[t] = x[t];
  for (int k = 0; k < (WRONG ? t : 3); ++k) __syncthreads();
  y[t] = tile[t ^ 1];
}

// Sums of neighbouring groups of 64.  Mistake: a wave and its shuffles have 64 lanes.
template <bool WRONG> __global__ void shuffles_of_a_wave(const float *x, float *y) {
  __shared__ float halves[THREADS / 32];
  const int t = threadIdx.x;
  float sum = x[t];
  for (int lane = WRONG ? 32 : 16; lane > 0; lane /= 2)
    sum += __shfl_xor(sum, lane, WRONG ? 64 : 32);
  if (t % 32 == 0) halves[t / 32] = sum;
  __syncthreads();
  y[t] = WRONG ? sum : halves[t / 64 * 2] + halves[t / 64 * 2 + 1];
}

// The sum of a block.  Mistake: the last 64 threads are a wave, which needs no barrier.
template <bool WRONG> __global__ void lanes_in_step(const float *x, float *y) {
  __shared__ float tile[THREADS];
  const int t = threadIdx.x;
  tile[t] = x[t];
  for (int step = THREADS / 2; step > 0; step /= 2) {
    if (!WRONG || step > 32) __syncthreads();
    if (t < step) tile[t] += tile[t + step];
  }
  if (t == 0) y[0] = tile[0];
}

// The sum of each wave of 32, by its first lane.  Mistake: what lane 0 wrote is read
// without a barrier, by threads that a wave of 64 would have beside it.
template <bool WRONG> __global__ void first_of_a_wave(const float *x, float *y) {
  __shared__ float of_wave[THREADS / 32];
  const int t = threadIdx.x;
  float sum = x[t];
  for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_xor(sum, lane, 32);
  if (t % 32 == 0) of_wave[t / 32] = sum;
  if (!WRONG) __syncthreads();
  y[t] = of_wave[(t / 32) ^ 1];
}

// How often each remainder occurs.  Mistake: shared memory is not set to zeros.
template <bool WRONG> __global__ void unwritten(const float *x, float *y) {
  __shared__ int counts[8];
  const int t = threadIdx.x;
  if (!WRONG && t < 8) counts[t] = 0;
  __syncthreads();
  atomicAdd(&counts[static_cast<int>(x[t]) % 8], 1);
  __syncthreads();
  if (t < 8) y[t] = static_cast<float>(counts[t]);
}

// The same in the memory that a launch asks for.
template <bool WRONG> __global__ void unwritten_dynamic(const float *x, float *y) {
  HIP_DYNAMIC_SHARED(int, counts)
  const int t = threadIdx.x;
  if (!WRONG && t < 8) counts[t] = 0;
  __syncthreads();
  atomicAdd(&counts[static_cast<int>(x[t]) % 8], 1);
  __syncthreads();
  if (t < 8) y[t] = static_cast<float>(counts[t]);
}

// Mistake: blocks are taken to run in order.
template <bool WRONG> __global__ void blocks_in_order(const float *x, float *y) {
  const int t = threadIdx.x, b = blockIdx.x;
  if (t) return;
  if (WRONG)
    y[b] = x[b] + (b ? y[b - 1] : 0);
  else
    for (int k = 0; k <= b; ++k) y[b] = (k ? y[b] : 0) + x[k];
}

// Mistake: the last block writes beyond the array.
template <bool WRONG> __global__ void out_of_bounds(const float *x, float *y) {
  const int i = blockIdx.x * THREADS + threadIdx.x;
  if (WRONG || i < 500) y[i] = x[i % 500];
}

// Mistake: a thread writes beyond the shared memory of the launch.
template <bool WRONG> __global__ void out_of_shared(const float *x, float *y) {
  HIP_DYNAMIC_SHARED(float, tile)
  const int t = threadIdx.x;
  tile[t + WRONG] = x[t];
  __syncthreads();
  y[t] = tile[t];
}

typedef void (*Kernel)(const float *, float *);

int start(Kernel kernel, unsigned blocks, size_t shared, const float *x, float *y) {
  hipLaunchKernelGGL(kernel, dim3(blocks), dim3(THREADS), shared, nullptr, x, y);
  return static_cast<int>(hipGetLastError());
}

}  // namespace

#define ENTRY(name, blocks, shared)                                                 \
  NBF_API int name(int wrong, const float *x, float *y) {                           \
    return start(wrong ? (name<true>) : (name<false>), blocks, shared, x, y);       \
  }
ENTRY(missing_barrier, 4, 0)
ENTRY(missing_second_barrier, 1, 0)
ENTRY(barrier_in_a_branch, 1, 0)
ENTRY(divergent_barrier, 1, 0)
ENTRY(barrier_in_a_loop, 1, 0)
ENTRY(shuffles_of_a_wave, 1, 0)
ENTRY(lanes_in_step, 1, 0)
ENTRY(first_of_a_wave, 1, 0)
ENTRY(unwritten, 2, 0)
ENTRY(unwritten_dynamic, 2, 8 * sizeof(int))
ENTRY(blocks_in_order, 100, 0)
ENTRY(out_of_bounds, 4, 0)
ENTRY(out_of_shared, 1, THREADS * sizeof(float))
