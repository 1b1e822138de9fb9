// Reductions: lanes walk the elements of a kept point together (rows), or neighbouring
// lanes take neighbouring kept points (columns).
//
// A `Task` is a Pass (states.h) whose values are `Task::Point`, and has
//
//   KEPT, REDUCED                numbers of loops
//   EXTENTS                      the word of their first extent; after them come the
//                                number of chunks and the elements of a chunk
//   FINAL                        the elements are the states of chunks
//   point(w, point)              where the elements of a kept point begin
//   finish(w, state, point, slot, size)   stores results, or the state of a chunk
#pragma once
#include "states.h"

namespace nbf {

// How the elements of each kept point are cut up: for lack of kept points, several
// groups of threads take a chunk each, and a second kernel merges their states.
template <class Task, class W> struct Cut {
  int64_t kept, reduced, chunks, chunk;

  __device__ explicit Cut(const W &w)
      : kept(product<Task::KEPT>(w, Task::EXTENTS)),
        reduced(product<Task::REDUCED>(w, Task::EXTENTS + Task::KEPT)),
        chunks(w.integer(Task::EXTENTS + Task::KEPT + Task::REDUCED)),
        chunk(w.integer(Task::EXTENTS + Task::KEPT + Task::REDUCED + 1)) {}

  __device__ int64_t begin(int64_t part) const { return part * chunk; }
  __device__ int64_t end(int64_t part) const {
    const int64_t all = Task::FINAL ? chunk : reduced, end = (part + 1) * chunk;
    return end < all ? end : all;
  }
};

// LANES threads for each chunk of a kept point, at most a GROUP or all of the block.
template <class Task, int THREADS, int LANES, int EACH, int WIDTH, class W>
NBF_DEVICE void reduce_rows(const W &w) {
  const Cut<Task, W> cut(w);
  const int thread = static_cast<int>(threadIdx.x), lane = thread % LANES;
  constexpr int GROUPS = THREADS / LANES;
  const int64_t all = cut.kept * cut.chunks;
  const int64_t step = static_cast<int64_t>(gridDim.x) * GROUPS;
  int64_t first = static_cast<int64_t>(blockIdx.x) * GROUPS;
  for (; first < all; first += step) {
    const int64_t slot = first + thread / LANES, point = divide(slot, cut.chunks);
    const int64_t part = slot - point * cut.chunks;
    const bool inside = slot < all;
    typename Task::State state = Task::identity();
    if (inside)
      state = walk<Task, LANES, EACH, WIDTH, false>(w, Task::point(w, point), lane,
                                                    cut.begin(part), cut.end(part),
                                                    cut.reduced);
    state = across<Task, LANES>(state);
    if (inside && lane == 0) Task::finish(w, state, point, slot, cut.reduced);
  }
}

// Add to the states of WIDTH neighbouring points EACH elements of each, STEP apart.
template <class Task, int EACH, int WIDTH, int STEP, class W>
NBF_DEVICE void take_down(const W &w, const typename Task::Point &point,
                          typename Task::State *states, int64_t place, int64_t size) {
  typename Task::template Load<WIDTH> loads[EACH];
  NBF_UNROLL
  for (int k = 0; k < EACH; ++k)
    loads[k] = Task::template load<WIDTH>(w, point, place + k * STEP);
  NBF_UNROLL
  for (int e = 0; e < WIDTH; ++e) {
    typename Task::State found[EACH];
    NBF_UNROLL
    for (int k = 0; k < EACH; ++k)
      found[k] = Task::element(w, point, loads[k], e, place + k * STEP, size);
    fold<Task, EACH / 2>(found);
    states[e] = Task::merge(states[e], found[0]);
  }
}

// A GROUP of lanes beside one another, each with WIDTH neighbouring kept points; the
// rows of threads below one another share the elements, row by row.
template <class Task, int THREADS, int EACH, int WIDTH, class W>
NBF_DEVICE void reduce_columns(const W &w) {
  constexpr int ROWS = THREADS / GROUP, SPAN = GROUP * WIDTH;
  static_assert(SPAN <= THREADS, "a thread finishes one point");
  __shared__ typename Task::State shared[ROWS * SPAN];
  const Cut<Task, W> cut(w);
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % GROUP, row = thread / GROUP;
  const int64_t across = (cut.kept + SPAN - 1) / SPAN;
  for (int64_t tile = blockIdx.x; tile < across * cut.chunks; tile += gridDim.x) {
    const int64_t part = divide(tile, across), first = (tile - part * across) * SPAN;
    const int64_t mine = first + lane * WIDTH, end = cut.end(part);
    typename Task::State states[WIDTH];
    NBF_UNROLL
    for (int e = 0; e < WIDTH; ++e) states[e] = Task::identity();
    if (mine < cut.kept) {
      const typename Task::Point point = Task::point(w, mine);
      int64_t j = cut.begin(part) + row;
      for (; j + (EACH - 1) * ROWS < end; j += EACH * ROWS)
        take_down<Task, EACH, WIDTH, ROWS>(w, point, states, j, cut.reduced);
      for (; j < end; j += ROWS)
        take_down<Task, 1, WIDTH, 0>(w, point, states, j, cut.reduced);
    }
    NBF_UNROLL
    for (int e = 0; e < WIDTH; ++e) shared[row * SPAN + lane * WIDTH + e] = states[e];
    __syncthreads();
    if (thread < SPAN && first + thread < cut.kept) {
      typename Task::State state = shared[thread];
      for (int k = 1; k < ROWS; ++k)
        state = Task::merge(state, shared[k * SPAN + thread]);
      Task::finish(w, state, first + thread, part * cut.kept + first + thread,
                   cut.reduced);
    }
    __syncthreads();  // before the next tile's states are written
  }
}

}  // namespace nbf
