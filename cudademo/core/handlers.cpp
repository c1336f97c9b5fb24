#include "handlers.hpp"

#include <dlfcn.h>

#include <chrono>
#include <cstddef>

namespace cudademo {

namespace {

const void* library_of(const void* address) {
  Dl_info info{};
  return dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

}  // namespace

HandlerKeeper::HandlerKeeper(const void* inside) : library_(library_of(inside)) {
  for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], nullptr, &before_[i]);
  watcher_ = std::thread([this] { watch(); });
}

HandlerKeeper::~HandlerKeeper() {
  {
    const std::lock_guard lock(guard_);
    done_ = true;
  }
  wake_.notify_one();
  watcher_.join();
}

void HandlerKeeper::watch() {
  // The signals are for the other threads, whose handlers may expect one of Python's.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  std::unique_lock lock(guard_);
  while (!wake_.wait_for(lock, std::chrono::milliseconds(1), [this] { return done_; })) put_back();
}

void HandlerKeeper::put_back() const {
  for (std::size_t i = 0; i < signals.size(); ++i) {
    struct sigaction now{};
    sigaction(signals[i], nullptr, &now);
    if (now.sa_handler == before_[i].sa_handler || now.sa_handler == SIG_DFL) continue;
    const auto* handler = reinterpret_cast<const void*>(now.sa_handler);
    if (library_ != nullptr && library_of(handler) == library_) {
      sigaction(signals[i], &before_[i], nullptr);
    }
  }
}

}  // namespace cudademo
