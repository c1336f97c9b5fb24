#include "handlers.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cudademo {

namespace {

bool is_kept(int number) { return number == SIGINT || number == SIGTERM; }

sighandler_t signal_but_for_kept(int number, sighandler_t handler) {
  return is_kept(number) ? SIG_DFL : signal(number, handler);
}

int sigaction_but_for_kept(int number, const struct sigaction* action, struct sigaction* former) {
  return sigaction(number, is_kept(number) ? nullptr : action, former);
}

void* replacement_of(std::string_view symbol) {
  if (symbol == "signal") return reinterpret_cast<void*>(&signal_but_for_kept);
  if (symbol == "sigaction") return reinterpret_cast<void*>(&sigaction_but_for_kept);
  return nullptr;
}

// The slot's page may be read-only since the library was loaded.
void write(void** slot, void* value) {
  const auto page_bytes = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  void* page = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(slot) & ~(page_bytes - 1));
  if (mprotect(page, page_bytes, PROT_READ | PROT_WRITE) == 0) *slot = value;
}

}  // namespace

void keep_signals_from(const void* inside) {
  Dl_info info{};
  void* found = nullptr;
  if (dladdr1(inside, &info, &found, RTLD_DL_LINKMAP) == 0) return;
  const auto* library = static_cast<const link_map*>(found);
  const char* names = nullptr;
  const ElfW(Sym)* symbols = nullptr;
  const ElfW(Rela)* slots = nullptr;
  std::size_t slot_bytes = 0;
  for (const ElfW(Dyn)* entry = library->l_ld; entry->d_tag != DT_NULL; ++entry) {
    const ElfW(Addr) address = entry->d_un.d_ptr;  // glibc has added where the library lies
    if (entry->d_tag == DT_STRTAB) names = reinterpret_cast<const char*>(address);
    if (entry->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(address);
    if (entry->d_tag == DT_JMPREL) slots = reinterpret_cast<const ElfW(Rela)*>(address);
    if (entry->d_tag == DT_PLTRELSZ) slot_bytes = entry->d_un.d_val;
  }
  if (names == nullptr || symbols == nullptr || slots == nullptr) return;
  for (std::size_t i = 0; i < slot_bytes / sizeof *slots; ++i) {
    const ElfW(Sym) & symbol = symbols[ELF64_R_SYM(slots[i].r_info)];
    void* replacement = replacement_of(names + symbol.st_name);
    if (replacement == nullptr) continue;
    write(reinterpret_cast<void**>(library->l_addr + slots[i].r_offset), replacement);
  }
}

}  // namespace cudademo
