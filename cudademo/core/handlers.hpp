// The process's signal handlers, kept from a library that would replace them.
#pragma once

namespace cudademo {

// Makes the calls of signal() and sigaction() for SIGINT and SIGTERM in the library that holds
// `inside` do nothing, for good: their slots in its procedure linkage table lead elsewhere.
void keep_signals_from(const void* inside);

}  // namespace cudademo
