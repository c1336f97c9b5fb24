// The process's signal handlers, kept while NVRTC compiles.
#pragma once

#include <signal.h>

#include <array>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace cudademo {

// Up to 13.0 NVRTC's front end installs handlers of its own for SIGINT and SIGTERM, which end the
// process with status 4 (seen with 12.8, 12.9 and 13.0; not with 13.1 to 13.5). While one of these
// lives, such handlers are replaced within milliseconds by those that were there at its making.
class HandlerKeeper {
 public:
  // `inside` is any address in NVRTC: handlers of the same library are the ones replaced.
  explicit HandlerKeeper(const void* inside);
  ~HandlerKeeper();
  HandlerKeeper(const HandlerKeeper&) = delete;
  HandlerKeeper& operator=(const HandlerKeeper&) = delete;

 private:
  static constexpr std::array signals{SIGINT, SIGTERM};

  void watch();
  void put_back() const;

  const void* library_;  // where NVRTC is mapped
  std::array<struct sigaction, signals.size()> before_{};
  std::mutex guard_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread watcher_;
};

}  // namespace cudademo
