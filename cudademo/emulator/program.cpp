#include "program.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <string>
#include <utility>

#include "decoder.hpp"
#include "system_calls.hpp"

namespace cudademo::emulator {

namespace {

constexpr std::size_t max_static_bytes = std::size_t{1} << 33;  // of a module's variables

std::size_t bytes_of(const ptx::Variable& variable) {
  return ptx::size_of(variable.type) * static_cast<std::size_t>(variable.vector) * variable.count;
}

StaticMemory make_static(const ptx::Variable& variable) {
  StaticMemory made;
  made.bytes = bytes_of(variable);
  // Zeros that take no memory until they are written.
  made.storage.reset(static_cast<std::byte*>(std::calloc(made.bytes + variable.align, 1)));
  if (!made.storage) throw std::bad_alloc();
  const auto address = reinterpret_cast<std::uintptr_t>(made.storage.get());
  made.data = made.storage.get() + (align_up(address, variable.align) - address);
  made.name = std::string(variable.name);
  made.is_constant = variable.space == ptx::Space::constant;
  return made;
}

void check_shared(std::uint64_t bytes, std::string_view whose) {
  if (bytes <= max_shared_bytes) return;
  throw ptx::ParseError(std::string(whose) + ": " + std::to_string(bytes) +
                        " bytes of shared memory, where a block has " +
                        std::to_string(max_shared_bytes));
}

std::uint64_t bits_of(const ptx::Initial& value, std::string_view type) {
  if (value.is_number && type == "f32") {
    return std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(value.bits)));
  }
  return value.bits;
}

void fill(StaticMemory& memory, const ptx::Global& global,
          const std::map<std::string_view, Symbol>& symbols) {
  const std::size_t size = ptx::size_of(global.variable.type);
  for (std::size_t i = 0; i < global.initial.size(); ++i) {
    const ptx::Initial& value = global.initial[i];
    std::uint64_t bits = bits_of(value, global.variable.type);
    if (!value.symbol.empty()) {
      const auto found = symbols.find(value.symbol);
      if (found == symbols.end()) {
        throw ptx::ParseError("an initialiser names " + std::string(value.symbol) +
                              ", which is not there");
      }
      bits += found->second.address;
      if (value.mask != 0) {  // 0xFF00(symbol) is the second byte of it
        bits = (bits & value.mask) >> std::countr_zero(value.mask);
      }
    }
    if ((i + 1) * size > memory.bytes)
      throw ptx::ParseError("an initialiser longer than its array");
    std::memcpy(memory.data + i * size, &bits, std::min<std::size_t>(size, 8));
  }
}

// A function accesses memory as those do that it calls: any that is no kernel.
void spread_access(Program& program) {
  for (auto least : {&Function::least_global_bytes, &Function::least_shared_bytes}) {
    std::uint8_t called = 4;
    for (const auto& function : program.functions) {
      if (!function->is_entry) called = std::min(called, (*function).*least);
    }
    for (const auto& function : program.functions) {
      (*function).*least = std::min(called, (*function).*least);
    }
  }
}

void number_sites(Program& program) {
  program.sites.emplace_back();
  for (const auto& function : program.functions) {
    const ptx::Instruction* former = nullptr;
    for (Instruction& instruction : function->code) {
      if (instruction.written == nullptr) continue;
      instruction.is_first = instruction.written != former;
      former = instruction.written;
      const ptx::Location& location = instruction.written->location;
      if (program.sites.back() != location) program.sites.push_back(location);
      instruction.site = static_cast<std::uint32_t>(program.sites.size() - 1);
    }
  }
}

// Whether a function or what it calls talks across blocks.
void spread_communication(Program& program) {
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& function : program.functions) {
      if (function->talks_across_blocks) continue;
      for (const auto& call : function->calls) {
        if (call->callee == nullptr || !call->callee->talks_across_blocks) continue;
        function->talks_across_blocks = true;
        changed = true;
      }
    }
  }
}

}  // namespace

const Function* Program::find(std::string_view name) const noexcept {
  for (const auto& function : functions) {
    if (function->name == name) return function.get();
  }
  return nullptr;
}

std::unique_ptr<Program> decode(std::string ptx_text) {
  auto program = std::make_unique<Program>();
  program->source = ptx::parse(std::move(ptx_text));
  const ptx::Module& module = program->source;
  std::map<std::string_view, Symbol> symbols;
  std::uint64_t shared = reserved_shared_bytes;
  std::size_t static_bytes = 0;
  for (const ptx::Global& global : module.globals) {
    const ptx::Variable& variable = global.variable;
    Symbol symbol;
    symbol.space = variable.space;
    if (variable.space == ptx::Space::shared) {
      if (variable.count == 0) {
        symbol.is_dynamic_shared = true;
      } else {
        shared = align_up(shared, variable.align);
        symbol.address = shared;
        shared += bytes_of(variable);
        check_shared(shared - reserved_shared_bytes, variable.name);
      }
    } else {
      static_bytes += bytes_of(variable);
      if (static_bytes > max_static_bytes) throw std::bad_alloc();
      program->statics.push_back(make_static(variable));
      symbol.address = reinterpret_cast<std::uint64_t>(program->statics.back().data);
    }
    symbols[variable.name] = symbol;
  }
  for (const ptx::Function& function : module.functions) {
    auto made = std::make_unique<Function>();
    made->name = std::string(function.name);
    if (function.is_extern && !function.is_entry) made->system_call = system_call(function.name);
    Symbol symbol;
    symbol.address = code_window + program->functions.size() * 16;
    symbol.function = made.get();
    symbols[function.name] = symbol;
    program->functions.push_back(std::move(made));
  }
  std::size_t next = 0;
  for (const ptx::Global& global : module.globals) {
    if (global.variable.space == ptx::Space::shared) continue;
    fill(program->statics[next++], global, symbols);
  }
  // Device functions' shared variables come first, at one place for all kernels.
  std::uint64_t base = shared;
  for (const bool entries : {false, true}) {
    for (std::size_t i = 0; i < module.functions.size(); ++i) {
      const ptx::Function& function = module.functions[i];
      if (function.is_entry != entries || program->functions[i]->system_call != nullptr) continue;
      Function& made = *program->functions[i];
      Decoder(function, symbols, made, static_cast<std::uint32_t>(base)).run();
      const std::uint64_t top = made.static_shared_bytes;
      made.static_shared_bytes = static_cast<std::uint32_t>(top - reserved_shared_bytes);
      check_shared(made.static_shared_bytes, made.name);
      if (!entries) base = top;
    }
  }
  spread_communication(*program);
  spread_access(*program);
  number_sites(*program);
  return program;
}

}  // namespace cudademo::emulator
