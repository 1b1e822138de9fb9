// Kernels that threads work on together: what the emulation has to get right.
#include "kernel.h"

namespace {

// The sum of each block's elements, by shuffles within 32 lanes and shared memory.
template <int THREADS>
__global__ void block_sums(const double *x, double *y, int64_t n) {
  __shared__ double of_group[THREADS / 32];
  const int t = threadIdx.x;
  const int64_t step = static_cast<int64_t>(gridDim.x) * THREADS;
  double sum = 0;
  for (int64_t i = blockIdx.x * static_cast<int64_t>(THREADS) + t; i < n; i += step)
    sum += x[i];
  for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_xor(sum, lane, 32);
  if (t % 32 == 0) of_group[t / 32] = sum;
  __syncthreads();
  if (t < 32) {
    sum = t < THREADS / 32 ? of_group[t] : 0;
    for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_down(sum, lane, 32);
    if (t == 0) y[blockIdx.x] = sum;
  }
}

// C = A B in tiles, of any extents; a batch along z.
constexpr int TILE = 16;
__global__ void product(const float *a, const float *b, float *c, int rows, int columns,
                        int inner) {
  __shared__ float left[TILE][TILE + 1], right[TILE][TILE + 1];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * TILE + ty, column = blockIdx.x * TILE + tx;
  a += blockIdx.z * rows * inner;
  b += blockIdx.z * inner * columns;
  float sum = 0;
  for (int first = 0; first < inner; first += TILE) {
    const int i = first + tx, j = first + ty;
    left[ty][tx] = row < rows && i < inner ? a[row * inner + i] : 0;
    right[ty][tx] = column < columns && j < inner ? b[j * columns + column] : 0;
    __syncthreads();
    for (int k = 0; k < TILE; ++k) sum += left[ty][k] * right[k][tx];
    __syncthreads();
  }
  if (row < rows && column < columns)
    c[(blockIdx.z * rows + row) * columns + column] = sum;
}

// How often each value occurs: counted by block in shared memory, then added up.
__global__ void histogram(const uint8_t *x, unsigned *counts, int64_t n) {
  HIP_DYNAMIC_SHARED(unsigned, own)
  for (int v = threadIdx.x; v < 256; v += blockDim.x) own[v] = 0;
  __syncthreads();
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < n;
       i += step)
    atomicAdd(&own[x[i]], 1u);
  __syncthreads();
  for (int v = threadIdx.x; v < 256; v += blockDim.x) atomicAdd(&counts[v], own[v]);
}

// Visits `n` indices, only the last `kept` of which have an element.
__global__ void beyond_32_bits(int64_t *y, int64_t n, int64_t kept) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  i += (n - kept - i + step - 1) / step * step;  // as the loop would come there
  for (; i < n; i += step) y[i - (n - kept)] = i;
}

// Where every thread is; the flat index of the thread is where it writes that.
__global__ void places(int *y) {
  const dim3 b = blockIdx, g = gridDim, d = blockDim;
  const int block = (b.z * g.y + b.y) * g.x + b.x;
  const int thread = (threadIdx.z * d.y + threadIdx.y) * d.x + threadIdx.x;
  int *const own = y + (block * static_cast<int>(d.x * d.y * d.z) + thread) * 6;
  own[0] = b.x; own[1] = b.y; own[2] = b.z;
  own[3] = threadIdx.x; own[4] = threadIdx.y; own[5] = threadIdx.z;
}

// What each kind of shuffle moves, in groups of `width` lanes.
template <class T> __global__ void shuffles(const T *x, T *y, int lane, int width) {
  const int t = threadIdx.x, n = blockDim.x;
  y[t] = __shfl(x[t], lane, width);
  y[n + t] = __shfl_up(x[t], static_cast<unsigned>(lane), width);
  y[2 * n + t] = __shfl_down(x[t], static_cast<unsigned>(lane), width);
  y[3 * n + t] = __shfl_xor(x[t], lane, width);
}

// Pairs of lanes shuffle as often as they like.
__global__ void apart(const float *x, float *y) {
  const int t = threadIdx.x;
  float v = x[t];
  for (int k = 0; k < t / 8 % 3; ++k) v += __shfl_xor(v, 1, 32);
  y[t] = v;
}

// Neighbours in shared memory, within 32 lanes.
__global__ void beside(const float *x, float *y) {
  __shared__ float tile[256];
  const int t = threadIdx.x;
  tile[t] = x[t];
  nbf::sync_wave();
  y[t] = tile[t ^ 1];
}

// The elements in reverse order by the first `n` threads; the others leave.
__global__ void reverse_first(const float *x, float *y, int n) {
  __shared__ float tile[256];
  const int t = threadIdx.x;
  if (t >= n) {
    nbf::leave();
    return;
  }
  tile[t] = x[t];
  __syncthreads();
  y[t] = tile[n - 1 - t];
}

// Every thread of the grid changes the same elements.
template <class T> __global__ void atomics(T *y) {
  const T i = static_cast<T>(blockIdx.x * blockDim.x + threadIdx.x);
  atomicAdd(&y[0], static_cast<T>(1));
  atomicMax(&y[1], i);
  atomicMin(&y[2], i);
  atomicCAS(&y[3], static_cast<T>(0), static_cast<T>(i + 1));
  y[4 + static_cast<int>(i)] = atomicExch(&y[4 + gridDim.x * blockDim.x], i);
}
template <class T> __global__ void bitwise(T *y) {
  const T own = static_cast<T>(1) << (threadIdx.x % (8 * sizeof(T)));
  atomicAnd(&y[0], static_cast<T>(~own));
  atomicOr(&y[1], own);
  atomicXor(&y[2], own);
}
__global__ void floating(float *x, double *y) {
  atomicAdd(x, 0.5f);
  atomicAdd(y, 0.25);
}

// A local array of 64 KiB in each thread, which keeps it while it waits.
__global__ void local_arrays(const int *x, int *y) {
  int own[16384];
  const int t = threadIdx.x;
  for (int k = 0; k < 16384; ++k) own[k] = x[(t + k) % 64];
  __syncthreads();
  int sum = 0;
  for (int k = 0; k < 16384; ++k) sum += own[(k * 7 + t) % 16384];
  y[t] = sum;
}

// As much of the stack as the launch asks for.
__device__ int deep(int depth) {
  volatile char room[1024];
  room[depth % 1024] = 1;
  return depth > 0 ? deep(depth - 1) + room[depth % 1024] : 0;
}
__global__ void recursive(int *y, int depth) { y[threadIdx.x] = deep(depth); }

}  // namespace

#define START(kernel, blocks, threads, shared, ...)                             \
  hipLaunchKernelGGL(kernel, blocks, threads, shared, nullptr, __VA_ARGS__);    \
  return static_cast<int>(hipGetLastError());

NBF_API int sums(const double *x, double *y, int64_t n, unsigned blocks) {
  START((block_sums<256>), dim3(blocks), dim3(256), 0, x, y, n)
}
NBF_API int product_of(const float *a, const float *b, float *c, int rows, int columns,
                       int inner, unsigned batch) {
  const dim3 blocks((columns + TILE - 1) / TILE, (rows + TILE - 1) / TILE, batch);
  START(product, blocks, dim3(TILE, TILE), 0, a, b, c, rows, columns, inner)
}
NBF_API int histogram_of(const uint8_t *x, unsigned *counts, int64_t n) {
  START(histogram, dim3(7), dim3(96), 256 * sizeof(unsigned), x, counts, n)
}
NBF_API int last_of(int64_t *y, int64_t n, int64_t kept) {
  START(beyond_32_bits, dim3(40), dim3(128), 0, y, n, kept)
}
NBF_API int places_of(int *y, const unsigned *blocks, const unsigned *threads,
                      size_t shared) {
  START(places, dim3(blocks[0], blocks[1], blocks[2]),
        dim3(threads[0], threads[1], threads[2]), shared, y)
}
NBF_API int shuffles_32(const int *x, int *y, unsigned n, int lane, int width) {
  START((shuffles<int>), dim3(1), dim3(n), 0, x, y, lane, width)
}
NBF_API int shuffles_64(const double *x, double *y, unsigned n, int lane, int width) {
  START((shuffles<double>), dim3(1), dim3(n), 0, x, y, lane, width)
}
NBF_API int shuffled_apart(const float *x, float *y, unsigned n) {
  START(apart, dim3(1), dim3(n), 0, x, y)
}
NBF_API int neighbours(const float *x, float *y, unsigned n) {
  START(beside, dim3(1), dim3(n), 0, x, y)
}
NBF_API int reversed_first(const float *x, float *y, unsigned threads, int n) {
  START(reverse_first, dim3(1), dim3(threads), 0, x, y, n)
}
NBF_API int atomics_32(int *y) { START((atomics<int>), dim3(9), dim3(70), 0, y) }
NBF_API int atomics_64(unsigned long long *y) {
  START((atomics<unsigned long long>), dim3(9), dim3(70), 0, y)
}
NBF_API int bitwise_32(unsigned *y) {
  START((bitwise<unsigned>), dim3(1), dim3(32), 0, y)
}
NBF_API int bitwise_64(unsigned long long *y) {
  START((bitwise<unsigned long long>), dim3(1), dim3(64), 0, y)
}
NBF_API int added(float *x, double *y) { START(floating, dim3(40), dim3(100), 0, x, y) }
NBF_API int large_arrays(const int *x, int *y) {
  START(local_arrays, dim3(2), dim3(64), 0, x, y)
}
NBF_API int recursion(int *y, int depth) {
  START(recursive, dim3(1), dim3(2), 0, y, depth)
}
