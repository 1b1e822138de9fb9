// A block of threads on one thread of the operating system: who runs and who waits.
#pragma once
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "emulation.h"
#include "emulation_fibers.h"

namespace nbf_emulation {

enum class Schedule { step, first, last };

constexpr unsigned MOST_THREADS = 1024, MOST_WAVES = MOST_THREADS / 32;
constexpr size_t MOST_SHARED = 64 << 10;

// What all blocks of a launch have in common.
struct Grid {
  dim3 blocks, threads;
  unsigned wave_size;
  Schedule schedule;
  size_t shared;
  Call call;
  const void *argument;
};

class Processor;

// A thread as its scheduler sees it.
struct Member : Thread {
  Processor *processor = nullptr;
  Fiber *fiber = nullptr;       // from its beginning to its end
  const char *place = nullptr;  // where it waits
  uint64_t offered = 0, received = 0;
  unsigned source = 0, width = 0;
};

// A bit for each lane.
struct Wave {
  uint64_t alive, ready, at_barrier, at_shuffle;
};

inline uint64_t bit(unsigned k) { return uint64_t{1} << k; }
inline uint64_t bits(unsigned count) {
  return count < 64 ? bit(count) - 1 : ~uint64_t{0};
}
inline uint64_t above(uint64_t lanes, unsigned k) { return lanes & ~(2 * bit(k) - 1); }
inline unsigned lowest(uint64_t lanes) { return __builtin_ctzll(lanes); }
inline unsigned highest(uint64_t lanes) { return 63 - __builtin_clzll(lanes); }

inline bool same(const char *a, const char *b) { return a == b || !strcmp(a, b); }
inline const char *file_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

class Processor {
 public:
  Processor() : shared_(new unsigned char[MOST_SHARED + 2 * ALIGNED]) {
    for (unsigned k = 0; k < MOST_THREADS; ++k) {
      members_[k].processor = this;
      members_[k].linear = k;
      members_[k].block = &block_;
    }
  }

  // Runs a block to its end.  Says why not, if that never comes, and can run another.
  bool run(const Grid &grid, uint64_t number, char *message, size_t room) {
    begin(grid, number);
    if (Member *first = next(count_ - 1)) {
      if (start(*first)) {
        self = first;
        go(main_, *first->fiber);
        self = nullptr;
      }
    }
    if (ended_ == count_) return true;
    report(message, room);
    abandon();
    return false;
  }

  void barrier(Member &own, const char *place) {
    if (waiting_ == 0) place_ = place;
    divergent_ |= !same(place, place_);
    own.place = place;
    stop(own, &Wave::at_barrier);
    ++waiting_;
    release_barrier();
    wait(own);
  }

  void leave() {
    ++left_;
    release_barrier();
  }

  uint64_t exchange(Member &own, uint64_t value, unsigned source, unsigned width,
                    const char *place) {
    const unsigned first = own.linear % grid_->wave_size & ~(width - 1);
    own.place = place;
    own.offered = value;
    own.source = source;
    own.width = width;
    stop(own, &Wave::at_shuffle);
    Wave &wave = wave_of(own);
    const uint64_t group = wave.alive & bits(width) << first;
    if ((wave.at_shuffle & group) == group)
      release_lanes(own.linear / grid_->wave_size, group);
    wait(own);
    return own.received;
  }

 private:
  static constexpr size_t ALIGNED = 64;

  void begin(const Grid &grid, uint64_t number) {
    const dim3 &b = grid.blocks;
    const uint64_t row = number / b.x;
    grid_ = &grid;
    block_ = {dim3(number % b.x, row % b.y, row / b.y), grid.threads, b, grid.wave_size,
              fresh_shared()};
    count_ = grid.threads.x * grid.threads.y * grid.threads.z;
    ended_ = left_ = waiting_ = 0;
    divergent_ = out_of_stacks_ = false;
    const unsigned size = grid.wave_size, waves = (count_ + size - 1) / size;
    for (unsigned w = 0; w < waves; ++w) {
      const uint64_t lanes = bits(std::min(size, count_ - w * size));
      waves_[w] = {lanes, lanes, 0, 0};
    }
    ready_ = bits(waves);
    main_.size = 0;
  }

  // Shared memory of the grid's size: 0xFF, and nothing after it may be touched.
  unsigned char *fresh_shared() {
    unsigned char *begin = shared_.get();
    begin += -reinterpret_cast<uintptr_t>(begin) % ALIGNED;
#if defined(NBF_ADDRESS_SANITIZER)
    __asan_unpoison_memory_region(begin, MOST_SHARED + 1);
    __asan_poison_memory_region(begin + grid_->shared, MOST_SHARED + 1 - grid_->shared);
#endif
    memset(begin, 0xFF, grid_->shared);
    return begin;
  }

  // What a stack runs: one thread after the other, as long as none has to wait.
  static void entry() {
    Processor &processor = *static_cast<Member *>(self)->processor;
    arrive(processor.main_.size ? nullptr : &processor.main_);
    for (;;) {
      Member &own = *static_cast<Member *>(self);
      processor.grid_->call(processor.grid_->argument);
      processor.finish(own);
    }
  }

  // Returns where another thread is to begin on this stack.
  void finish(Member &own) {
    Fiber &fiber = *own.fiber;
    Wave &wave = wave_of(own);
    own.fiber = nullptr;
    wave.alive &= ~bit(own.linear % grid_->wave_size);
    stop(own, nullptr);
    ++ended_;
    Member *other = next(own.linear);
    self = other;
    if (other && !other->fiber) {
      other->fiber = &fiber;
      place(*other);
      return;
    }
    spare_.push_back(&fiber);
    go(fiber, other ? *other->fiber : main_, true);
  }

  // The running thread cannot go on until it is ready again.
  void wait(Member &own) {
    Member *other = next(own.linear);
    if (other == &own) return;
    if (other && !other->fiber && !start(*other)) other = nullptr;
    self = other;
    go(*own.fiber, other ? *other->fiber : main_);
  }

  bool start(Member &member) {
    if (spare_.empty()) {
      std::unique_ptr<Fiber> fiber(new Fiber);
      if (!make_stack(*fiber)) {
        out_of_stacks_ = true;
        return false;
      }
      spare_.push_back(fiber.get());
      fibers_.push_back(std::move(fiber));
    }
    member.fiber = spare_.back();
    spare_.pop_back();
    prepare(*member.fiber, entry, member.linear);
    place(member);
    return true;
  }

  void place(Member &member) {
    const unsigned k = member.linear;
    const dim3 &b = grid_->threads;
    member.index = b.y == 1 && b.z == 1 ? dim3(k, 0, 0)
                                        : dim3(k % b.x, k / b.x % b.y, k / b.x / b.y);
  }

  Wave &wave_of(const Member &m) { return waves_[m.linear / grid_->wave_size]; }

  // Who runs next, if anyone can; `after` is who ran last.
  Member *next(unsigned after) {
    if (!ready_ && !release_any_lanes()) return nullptr;
    const unsigned size = grid_->wave_size;
    unsigned w = after / size, lane;
    switch (grid_->schedule) {
      case Schedule::first:
        w = lowest(ready_);
        lane = lowest(waves_[w].ready);
        break;
      case Schedule::last:
        w = highest(ready_);
        lane = highest(waves_[w].ready);
        break;
      default:
        if (const uint64_t lanes = above(waves_[w].ready, after % size)) {
          lane = lowest(lanes);
        } else {
          const uint64_t later = above(ready_, w);
          w = lowest(later ? later : ready_);
          lane = lowest(waves_[w].ready);
        }
    }
    return &members_[w * size + lane];
  }

  void stop(const Member &m, uint64_t Wave::*where) {
    Wave &wave = wave_of(m);
    const uint64_t lane = bit(m.linear % grid_->wave_size);
    wave.ready &= ~lane;
    if (where) wave.*where |= lane;
    if (!wave.ready) ready_ &= ~bit(m.linear / grid_->wave_size);
  }

  void resume(unsigned w, uint64_t lanes) {
    waves_[w].ready |= lanes;
    if (lanes) ready_ |= bit(w);
  }

  void release_barrier() {
    if (waiting_ + left_ != count_ || divergent_) return;
    for (unsigned w = 0; w * grid_->wave_size < count_; ++w) {
      resume(w, waves_[w].at_barrier);
      waves_[w].at_barrier = 0;
    }
    waiting_ = 0;
  }

  // A shuffle of those of the lanes that are at the same one as the first of them.
  void release_lanes(unsigned w, uint64_t lanes) {
    Member *members = &members_[w * grid_->wave_size];
    const Member &lead = members[lowest(lanes)];
    uint64_t together = 0;
    for (uint64_t rest = lanes; rest; rest &= rest - 1) {
      const unsigned lane = lowest(rest);
      const Member &m = members[lane];
      if (m.width == lead.width && same(m.place, lead.place)) together |= bit(lane);
    }
    for (uint64_t rest = together; rest; rest &= rest - 1) {
      Member &m = members[lowest(rest)];
      const bool there = m.source < 64 && together & bit(m.source);
      m.received = there ? members[m.source].offered : ~uint64_t{0};
    }
    waves_[w].at_shuffle &= ~together;
    resume(w, together);
  }

  // Lanes wait for others that cannot come now: as on a GPU, those are inactive.
  bool release_any_lanes() {
    for (unsigned w = 0; w * grid_->wave_size < count_; ++w) {
      if (const uint64_t lanes = waves_[w].at_shuffle) {
        const Member &lead = members_[w * grid_->wave_size + lowest(lanes)];
        const unsigned first = lowest(lanes) & ~(lead.width - 1);
        release_lanes(w, lanes & bits(lead.width) << first);
        return true;
      }
    }
    return false;
  }

  // Where the threads wait that cannot go on.
  void report(char *message, size_t room) const {
    if (out_of_stacks_) {
      snprintf(message, room, "there is no memory for the stacks of %u threads",
               count_);
      return;
    }
    std::map<std::string, unsigned> waiting;
    for (unsigned k = 0; k < count_; ++k)
      if (members_[k].fiber) ++waiting[file_name(members_[k].place)];
    std::string text;
    for (const auto &[place, threads] : waiting)
      text += std::to_string(threads) + " wait at " + place + ", ";
    const dim3 &at = block_.index;
    snprintf(message, room,
             "a barrier is not reached by all threads of block (%u, %u, %u): %s%u have "
             "ended",
             at.x, at.y, at.z, text.c_str(), ended_);
  }

  // Forgets the threads that wait, whose stacks serve others.
  void abandon() {
    for (Member &member : members_) member.fiber = nullptr;
    spare_.clear();
    for (const auto &fiber : fibers_) spare_.push_back(fiber.get());
  }

  const Grid *grid_ = nullptr;
  Block block_;
  Member members_[MOST_THREADS];
  Wave waves_[MOST_WAVES];
  uint64_t ready_ = 0;  // a bit for each wave with a thread that can run
  unsigned count_ = 0, ended_ = 0, left_ = 0, waiting_ = 0;
  const char *place_ = nullptr;  // of the barrier that the first of them came to
  bool divergent_ = false, out_of_stacks_ = false;
  Fiber main_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber *> spare_;
  std::unique_ptr<unsigned char[]> shared_;
};

}  // namespace nbf_emulation
