#include "block.hpp"

#include <algorithm>
#include <bit>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>
#include <utility>

namespace cudademo::emulator {

namespace {

template <typename T>
void permute(std::vector<T>& items, std::uint64_t seed) {
  if (seed == 0) return;
  std::mt19937_64 random(seed);
  // std::shuffle differs from one library to another.
  for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[random() % i]);
}

// Of granules that no access is smaller than.
unsigned shift_of(std::uint8_t least_bytes) noexcept {
  return static_cast<unsigned>(std::countr_zero(least_bytes));
}

// The order of a launch's blocks: as they are numbered, or permuted by a seed.
class Schedule {
 public:
  Schedule(std::uint64_t count, std::uint64_t seed) : count_(count) {
    if (seed == 0) return;
    permuted_.resize(count);
    std::iota(permuted_.begin(), permuted_.end(), std::uint64_t{0});
    permute(permuted_, seed);
  }

  std::uint64_t size() const noexcept { return count_; }
  std::uint64_t operator[](std::uint64_t i) const { return permuted_.empty() ? i : permuted_[i]; }

 private:
  std::uint64_t count_;
  std::vector<std::uint64_t> permuted_;
};

}  // namespace

Block::Block(Launch& launch, std::uint64_t linear_index) : launch_(&launch), linear_(linear_index) {
  index_ = index_of(launch, linear_index);
  dynamic_offset_ = static_cast<std::uint32_t>(
      align_up(reserved_shared_bytes + launch.entry->static_shared_bytes, 16));
  shared_bytes_ = launch.dynamic_shared_bytes != 0
                      ? dynamic_offset_ + launch.dynamic_shared_bytes
                      : reserved_shared_bytes + launch.entry->static_shared_bytes;
  // What nobody wrote is no number that a kernel would write: a first write is never the same.
  shared_.resize(shared_bytes_, launch.options.checks ? std::byte{0xcd} : std::byte{0});
  shared_state_.resize(shared_bytes_);
  const auto threads = static_cast<unsigned>(launch.block.count());
  const unsigned count = (threads + lanes - 1) / lanes;
  if (launch.options.checks) {
    races_.emplace(linear_index, shared_bytes_, shift_of(launch.entry->least_shared_bytes), count,
                   launch.shadow, launch.releases);
  }
  warps_.reserve(count);
  for (unsigned i = 0; i < count; ++i) {
    const unsigned here = std::min(lanes, threads - i * lanes);
    warps_.emplace_back(*this, i, here == lanes ? all_lanes : (Mask{1} << here) - 1);
  }
  order_.resize(count);
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  permute(order_, launch.options.seed == 0 ? 0 : launch.options.seed + linear_index + 1);
  finished_.assign(count, false);
}

std::array<std::uint32_t, 3> Block::index_of(const Launch& launch, std::uint64_t linear) noexcept {
  const Extent& grid = launch.grid;
  return {static_cast<std::uint32_t>(linear % grid.x),
          static_cast<std::uint32_t>(linear / grid.x % grid.y),
          static_cast<std::uint32_t>(linear / grid.x / grid.y)};
}

std::array<std::uint32_t, 3> Block::thread(unsigned warp, unsigned lane) const noexcept {
  const Extent& block = launch_->block;
  const unsigned linear = warp * lanes + lane;
  return {linear % block.x, linear / block.x % block.y, linear / block.x / block.y};
}

bool Block::run(std::uint64_t instructions) {
  const std::uint64_t share = std::clamp(instructions, std::uint64_t{1}, slice);
  std::uint64_t used = 0;
  for (;;) {
    progressed_ = false;
    bool all_finished = true;
    for (const std::size_t i : order_) {
      if (finished_[i]) continue;
      const std::uint64_t before = warps_[i].executed();
      const Warp::Outcome outcome = warps_[i].run(share);
      progressed_ =
          progressed_ || outcome != Warp::Outcome::waiting || warps_[i].executed() != before;
      if (outcome == Warp::Outcome::finished) {
        finished_[i] = true;
        launch_->executed += warps_[i].executed();
      } else {
        all_finished = false;
      }
      if (outcome == Warp::Outcome::running) used += share;
    }
    if (all_finished) return true;
    if (!progressed_) report_deadlock();
    if (used >= instructions) return false;
  }
}

std::uint32_t Block::live_threads() const {
  std::uint32_t count = 0;
  for (const Warp& warp : warps_) count += static_cast<std::uint32_t>(std::popcount(warp.live()));
  return count;
}

void Block::arrive(Warp& warp, int number, std::uint32_t expected, Mask mask, bool waits) {
  Barrier& barrier = barriers_[static_cast<std::size_t>(number)];
  barrier.expected = expected;
  barrier.arrived += static_cast<std::uint32_t>(std::popcount(mask));
  if (races_) races_->arrive(warp.index(), number);
  if (waits) warp.wait_at_barrier(number);
  progressed_ = true;
  settle(number);
}

// Opens a barrier that all have come to.
void Block::settle(int number) {
  Barrier& barrier = barriers_[static_cast<std::size_t>(number)];
  if (barrier.arrived == 0) return;
  const std::uint32_t expected = barrier.expected != 0 ? barrier.expected : live_threads();
  if (barrier.arrived < expected) return;
  reductions_[static_cast<std::size_t>(number)] = {barrier.predicate_count, barrier.all,
                                                   barrier.any};
  barrier = {};
  for (Warp& warp : warps_) {
    if (warp.release_from_barrier(number) && races_) races_->leave(warp.index(), number);
  }
  progressed_ = true;
}

void Block::threads_exited() {
  has_exited_ = true;
  for (int number = 0; number < static_cast<int>(barriers_.size()); ++number) {
    const Barrier& barrier = barriers_[static_cast<std::size_t>(number)];
    if (barrier.arrived == 0 || barrier.expected != 0) continue;
    if (launch_->options.checks) report_missed(number);
    settle(number);
  }
}

// A thread has returned and others wait for it: hardware lets them go on, CUDA does not promise it.
void Block::report_missed(int number) {
  for (const Warp& warp : warps_) {
    for (const Fragment& fragment : warp.fragments()) {
      if (fragment.state != Fragment::State::at_barrier || fragment.barrier != number) continue;
      warp.fail(kind::barrier, static_cast<unsigned>(std::countr_zero(fragment.mask)),
                "a barrier that not all threads come to: some have returned without it");
    }
  }
}

void Block::report_deadlock() {
  std::string what = "no thread of the block can go on:";
  const Warp* first = nullptr;
  unsigned lane = 0;
  std::size_t listed = 0;
  for (const Warp& warp : warps_) {
    for (const Fragment& fragment : warp.fragments()) {
      if (first == nullptr) {
        first = &warp;
        lane = static_cast<unsigned>(std::countr_zero(fragment.mask));
      }
      if (++listed > 4) continue;
      what += std::string(listed > 1 ? "," : "") + " " +
              std::to_string(std::popcount(fragment.mask)) + " of warp " +
              std::to_string(warp.index()) + " wait at " +
              (fragment.state == Fragment::State::at_barrier
                   ? "barrier " + std::to_string(fragment.barrier)
                   : std::string("a synchronisation of their warp")) +
              " (" + warp.place_of(fragment) + ")";
    }
  }
  if (first == nullptr) throw Fault({});
  first->fail(kind::deadlock, lane, what);
}

// ---- the launch ----

namespace {

// Blocks that talk to one another take turns on one thread, so that the same launch gives the same
// bits each time, and one that waits for another does not wait forever.
void run_in_turn(Launch& launch, const Schedule& order) {
  const std::uint64_t turn = std::min(std::uint64_t{1} << 22, launch.options.budget);
  std::deque<std::unique_ptr<Block>> waiting;
  for (std::uint64_t i = 0; i < order.size(); ++i) {
    auto block = std::make_unique<Block>(launch, order[i]);
    if (!launch.is_cooperative && block->run(turn)) continue;
    waiting.push_back(std::move(block));
  }
  const std::uint64_t share = std::min(slice, turn);
  std::uint64_t turns = 0;
  while (!waiting.empty()) {
    std::unique_ptr<Block> block = std::move(waiting.front());
    waiting.pop_front();
    if (block->run(share)) continue;
    waiting.push_back(std::move(block));
    turns += share;
    if (turns > launch.options.budget) {
      Report report;
      report.kind = kind::budget;
      report.kernel = launch.entry->name;
      report.what = "blocks were still running after " + std::to_string(launch.options.budget) +
                    " instructions";
      throw Fault(std::move(report));
    }
  }
}

void run_to_the_end(Launch& launch, std::uint64_t index) {
  Block block(launch, index);
  if (block.run(launch.options.budget)) return;
  Report report;
  report.kind = kind::budget;
  report.kernel = launch.entry->name;
  report.block = block.index();
  report.what =
      "a block was still running after " + std::to_string(launch.options.budget) + " instructions";
  throw Fault(std::move(report));
}

// Of faults in several blocks the one in the earliest is reported, whichever thread was faster.
void run_at_once(Launch& launch, const Schedule& order, unsigned threads) {
  std::atomic<std::uint64_t> next{0};
  std::atomic<std::uint64_t> failed{order.size()};
  std::mutex guard;
  std::exception_ptr error;
  const auto work = [&] {
    for (;;) {
      const std::uint64_t i = next.fetch_add(1);
      if (i >= failed.load()) return;
      try {
        run_to_the_end(launch, order[i]);
      } catch (...) {
        const std::lock_guard lock(guard);
        if (i < failed.load()) {
          failed.store(i);
          error = std::current_exception();
        }
      }
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (unsigned i = 1; i < threads; ++i) helpers.emplace_back(work);
    work();
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace

void run(Launch& launch) {
  const Schedule order(launch.grid.count(), launch.options.seed);
  const bool in_turn = launch.entry->talks_across_blocks || launch.is_cooperative;
  std::optional<Shadow> shadow;
  std::optional<Releases> releases;
  if (launch.options.checks) {
    launch.shadow =
        &shadow.emplace(launch.memory->ranges(), shift_of(launch.entry->least_global_bytes));
    if (in_turn) launch.releases = &releases.emplace();
  }
  if (in_turn) return run_in_turn(launch, order);
  const unsigned cores =
      std::max(1u, launch.options.threads != 0 ? launch.options.threads
                                               : std::thread::hardware_concurrency());
  const auto threads = static_cast<unsigned>(std::min<std::uint64_t>(cores, order.size()));
  run_at_once(launch, order, threads);
}

}  // namespace cudademo::emulator
