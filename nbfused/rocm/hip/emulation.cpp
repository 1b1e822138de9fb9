// Launches: the threads of the operating system that share out the blocks of a grid.
#include "emulation.h"

#include <link.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <system_error>
#include <thread>

#include "emulation_block.h"
#include "emulation_runtime.h"

// The C library's, of which there is no declaration; an offset follows the module.
extern "C" void *__tls_get_addr(size_t *module);

namespace nbf_emulation {

__thread Thread *self;

namespace {

// Static shared memory up to this size is 0xFF again for each block, and more than that
// when a thread of the operating system comes to a launch: a library of many kernels
// has the arrays of all of them.
constexpr size_t FRESH = 64 << 10;
// A launch that takes longer than this gets help: waking others takes about as long.
constexpr std::chrono::microseconds ALONE(20);

struct Launch {
  Grid grid;
  Library library{};
  uint64_t count = 0;
  unsigned most = 1;  // threads of the operating system
  std::atomic<uint64_t> taken{0};
  std::atomic<bool> failed{false};
  unsigned helpers = 0;
  char message[512] = "";

  bool open() const { return taken < count && !failed; }
};

void refresh(const Library &library) {
  size_t place[2] = {library.module, 0};
  if (library.size) memset(__tls_get_addr(place), 0xFF, library.size);
}

// Threads of the operating system that help with launches, and what blocks run on.
// Never destroyed; made anew in a process that was forked, which has no such threads.
class Crew {
 public:
  std::mutex mutex;

  // Runs blocks while there are some.
  void work(Launch &launch, bool called) {
    const auto begin = std::chrono::steady_clock::now();
    Processor *processor = borrow();
    if (launch.library.size > FRESH) refresh(launch.library);
    while (launch.open()) {
      const uint64_t number = launch.taken++;
      if (number >= launch.count) break;
      if (launch.library.size <= FRESH) refresh(launch.library);
      run(*processor, launch, number);
      if (called && launch.most > 1 && launch.open() &&
          std::chrono::steady_clock::now() - begin > ALONE) {
        offer(launch);
        called = false;
      }
    }
    give_back(processor);
  }

  // Waits for those who help.
  void finish(Launch &launch) {
    std::unique_lock<std::mutex> lock(mutex);
    offered_.erase(std::remove(offered_.begin(), offered_.end(), &launch),
                   offered_.end());
    done_.wait(lock, [&] { return launch.helpers == 0; });
  }

 private:
  void run(Processor &processor, Launch &launch, uint64_t number) {
    char message[sizeof launch.message];
    if (launch.grid.schedule == Schedule::last) number = launch.count - 1 - number;
    if (processor.run(launch.grid, number, message, sizeof message)) return;
    const std::lock_guard<std::mutex> lock(mutex);
    if (!launch.failed) memcpy(launch.message, message, sizeof message);
    launch.failed = true;
  }

  void offer(Launch &launch) {
    const std::lock_guard<std::mutex> lock(mutex);
    while (members_ + 1 < launch.most) {
      try {
        std::thread([this] { help(); }).detach();
      } catch (const std::system_error &) {
        break;  // fewer do it as well
      }
      ++members_;
    }
    offered_.push_back(&launch);
    work_.notify_all();
  }

  [[noreturn]] void help() {
    // The first access of a thread allocates, and older C libraries do not keep vector
    // registers meanwhile, as the compiler believes.
    self = nullptr;
    std::unique_lock<std::mutex> lock(mutex);
    for (;;) {
      Launch *launch = nullptr;
      work_.wait(lock, [&] { return (launch = find()) != nullptr; });
      ++launch->helpers;
      lock.unlock();
      work(*launch, false);
      lock.lock();
      if (--launch->helpers == 0) done_.notify_all();
    }
  }

  Launch *find() const {
    for (Launch *launch : offered_)
      if (launch->open() && launch->helpers + 1 < launch->most) return launch;
    return nullptr;
  }

  Processor *borrow() {
    const std::lock_guard<std::mutex> lock(mutex);
    if (spare_.empty()) return new Processor;
    Processor *processor = spare_.back();
    spare_.pop_back();
    return processor;
  }

  void give_back(Processor *processor) {
    const std::lock_guard<std::mutex> lock(mutex);
    spare_.push_back(processor);
  }

  std::condition_variable work_, done_;
  std::vector<Launch *> offered_;
  std::vector<Processor *> spare_;
  unsigned members_ = 0;
};

Crew *crew;

// A fork in the middle of a launch by another thread must not leave a lock behind.
__attribute__((constructor)) void begin() {
  crew = new Crew;
  memory();
  pthread_atfork(
      [] {
        crew->mutex.lock();
        memory().mutex.lock();
      },
      [] {
        memory().mutex.unlock();
        crew->mutex.unlock();
      },
      [] {
        memory().mutex.unlock();
        crew = new Crew;
      });
}

// The library whose code or data `library.inside` is: its thread-local storage.
int locate(dl_phdr_info *info, size_t, void *given) {
  Library &library = *static_cast<Library *>(given);
  const auto at = reinterpret_cast<uintptr_t>(library.inside) - info->dlpi_addr;
  const ElfW(Phdr) *begin = info->dlpi_phdr, *end = begin + info->dlpi_phnum;
  const bool here = std::any_of(begin, end, [=](const ElfW(Phdr) &part) {
    return part.p_type == PT_LOAD && at - part.p_vaddr < part.p_memsz;
  });
  if (!here) return 0;
  const auto *part = std::find_if(
      begin, end, [](const ElfW(Phdr) &p) { return p.p_type == PT_TLS; });
  // A program's own storage holds more than shared arrays.
  if (part != end && info->dlpi_name[0]) {
    library.module = info->dlpi_tls_modid;
    library.size = part->p_memsz;
  }
  return 1;
}

void find(Library &library) {
  if (__atomic_load_n(&library.known, __ATOMIC_ACQUIRE)) return;
  const std::lock_guard<std::mutex> lock(crew->mutex);
  if (library.known) return;
  dl_iterate_phdr(locate, &library);
  Library own{&nbf_emulation::library, 0, 0, false};
  dl_iterate_phdr(locate, &own);
  if (own.module == library.module) library.size = 0;
  __atomic_store_n(&library.known, true, __ATOMIC_RELEASE);
}

// Who runs next, by its name; false if that is none.
bool choose(Schedule &schedule) {
  const char *name = getenv("NBFUSED_EMULATION_SCHEDULE");
  schedule = Schedule::step;
  if (!name || !*name || !strcmp(name, "step")) return true;
  schedule = strcmp(name, "first") ? Schedule::last : Schedule::first;
  return schedule == Schedule::first || !strcmp(name, "last");
}

// What a GPU refuses as well, and settings that mean nothing.
hipError_t check(const Grid &grid) {
  const dim3 &b = grid.blocks, &t = grid.threads;
  if (!is_device(current_device)) return fail(hipErrorNoDevice);
  if (grid.wave_size != 32 && grid.wave_size != 64)
    return fail(hipErrorInvalidConfiguration,
                "NBFUSED_EMULATION_WAVE is '%s'; it must be 32 or 64",
                getenv("NBFUSED_EMULATION_WAVE"));
  const bool empty = !b.x || !b.y || !b.z || !t.x || !t.y || !t.z;
  if (empty || b.x > 0x7FFFFFFF || b.y > 65535 || b.z > 65535)
    return fail(hipErrorInvalidConfiguration,
                "%u x %u x %u blocks of %u x %u x %u threads; extents are positive, "
                "and a grid's below 2147483648, 65536, 65536",
                b.x, b.y, b.z, t.x, t.y, t.z);
  if (uint64_t{t.x} * t.y > MOST_THREADS || uint64_t{t.x} * t.y * t.z > MOST_THREADS)
    return fail(hipErrorInvalidConfiguration,
                "%u x %u x %u threads in a block; at most %u", t.x, t.y, t.z,
                MOST_THREADS);
  if (grid.shared > MOST_SHARED)
    return fail(hipErrorInvalidConfiguration,
                "%zu bytes of shared memory; a block has at most %zu", grid.shared,
                MOST_SHARED);
  return hipSuccess;
}

unsigned most_helpers() {
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  return static_cast<unsigned>(
      setting("NBFUSED_EMULATION_THREADS", std::min(cores, 16u)));
}

}  // namespace

void launch(dim3 blocks, dim3 threads, size_t shared, Call call, const void *argument,
            Library *library) {
  Schedule schedule;
  if (!choose(schedule)) {
    fail(hipErrorInvalidConfiguration,
         "NBFUSED_EMULATION_SCHEDULE is '%s'; it must be step, first or last",
         getenv("NBFUSED_EMULATION_SCHEDULE"));
    return;
  }
  const unsigned wave = static_cast<unsigned>(wave_size());
  Launch launch{{blocks, threads, wave, schedule, shared, call, argument}};
  if (check(launch.grid) != hipSuccess) return;
  find(*library);
  launch.library = *library;
  launch.count = uint64_t{blocks.x} * blocks.y * blocks.z;
  launch.most = most_helpers();
  crew->work(launch, true);
  crew->finish(launch);
  if (launch.failed) fail(hipErrorLaunchFailure, "%s", launch.message);
}

void barrier(const char *place) {
  Member &own = *static_cast<Member *>(self);
  own.processor->barrier(own, place);
}

void leave() { static_cast<Member *>(self)->processor->leave(); }

uint64_t exchange(uint64_t value, unsigned source, unsigned width, const char *place) {
  Member &own = *static_cast<Member *>(self);
  return own.processor->exchange(own, value, source, width, place);
}

}  // namespace nbf_emulation
