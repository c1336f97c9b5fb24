// A library that handles signals, as NVRTC's front end did up to 13.0.
#include <signal.h>

extern "C" [[gnu::visibility("default")]] void install(int number, bool by_sigaction) {
  struct sigaction own{};
  own.sa_handler = [](int) {};
  if (by_sigaction) {
    sigaction(number, &own, nullptr);
  } else if (signal(number, SIG_IGN) != SIG_IGN) {
    signal(number, own.sa_handler);
  }
}
