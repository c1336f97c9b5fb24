// Turns the instructions of one function into rows and handlers. The rules, one for each opcode,
// are in the files named after what they compute.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "program.hpp"
#include "ptx.hpp"

namespace cudademo::emulator {

// What a module's names stand for.
struct Symbol {
  ptx::Space space = ptx::Space::global;
  std::uint64_t address = 0;  // within its space's window, or the host's for global and constant
  bool is_dynamic_shared = false;
  const Function* function = nullptr;
};

class Decoder {
 public:
  Decoder(const ptx::Function& source, const std::map<std::string_view, Symbol>& symbols,
          Function& made, std::uint32_t shared_base);

  void run();

  // ---- for rules ----

  const ptx::Function& source() const noexcept { return source_; }

  // The row of a source of this size: 0 for a predicate. A wider register is narrowed first.
  Row source(const ptx::Operand& operand, std::size_t bytes, bool is_float = false);
  // The row of a result. Into a wider register it is extended afterwards.
  Row result(const ptx::Operand& operand, std::size_t bytes, bool is_signed = false);
  Row temporary(std::size_t bytes);
  Row constant(std::uint64_t bits, std::size_t bytes);
  // A symbol or a parameter's place in its space, as a 64-bit row.
  Row address(const ptx::Operand& base, bool& wide);

  Instruction& emit(Handler handler, std::initializer_list<Row> rows);
  Instruction& emit(Handler handler, const std::vector<Row>& rows);

  // Whether a register stands anywhere else in the function.
  bool is_used(const ptx::Operand& result) const;

  const Symbol* symbol(std::string_view name) const;
  std::uint32_t position_of(int label) const;
  const ptx::Label& label(int index) const;
  Slot slot(int variable) const;
  CallSite& call_site();
  std::vector<std::uint32_t>& target_list();
  std::uint32_t end() const noexcept;
  // Keeps what an instruction's `more` points to as long as the function.
  template <typename T>
  const T* keep(T detail) {
    auto kept = std::make_shared<const T>(std::move(detail));
    made_.details.push_back(kept);
    return kept.get();
  }

  // Throws ptx::ParseError naming the instruction.
  [[noreturn]] void fail(const std::string& what) const;
  void require(std::size_t operands) const;
  // The size of a type that the instruction takes: one of these.
  std::size_t bytes_of(std::string_view type, std::initializer_list<std::size_t> taken) const;
  void mark_communication() noexcept { made_.talks_across_blocks = true; }
  // No access in this space is of fewer bytes than the least that is marked, or than 4.
  void mark_access(ptx::Space space, std::size_t bytes) noexcept {
    const auto width = static_cast<std::uint8_t>(bytes);
    const bool is_generic = space == ptx::Space::generic;
    if (is_generic || space == ptx::Space::global) {
      made_.least_global_bytes = std::min(made_.least_global_bytes, width);
    }
    if (is_generic || space == ptx::Space::shared) {
      made_.least_shared_bytes = std::min(made_.least_shared_bytes, width);
    }
  }

 private:
  void place_variables();
  void refuse(const char* what);
  void place_constants();
  Row row_of(const ptx::Operand& operand) const;                   // of a register, or a component
  Row address_in(const ptx::Operand& operand, std::size_t bytes);  // the lowest bytes of an address
  std::size_t integer_bytes(std::size_t bytes) const;  // fails for a predicate, and for 128 bits
  void find_reconvergence();
  Row reserve(std::size_t bytes, unsigned components = 1);

  const ptx::Function& source_;
  const std::map<std::string_view, Symbol>& symbols_;
  Function& made_;
  const ptx::Instruction* current_ = nullptr;
  std::vector<Row> rows_;                // of a function's register variables
  std::vector<std::uint32_t> mentions_;  // of each variable, by the operands
  std::vector<Slot> slots_;              // of its local, parameter and shared variables
  struct Constant {
    std::uint64_t bits;
    std::size_t bytes;
  };
  std::map<std::pair<std::uint64_t, std::size_t>, Row> constant_rows_;
  std::vector<Constant> constants_;
  struct Extension {
    Handler handler;
    Row to;
    Row from;
  };
  std::vector<Extension> extensions_;     // after the current instruction
  std::vector<std::uint32_t> positions_;  // of each PTX instruction in the code
  std::uint32_t shared_base_;
};

using Rule = void (*)(Decoder& decoder, const ptx::Instruction& written);
using Rules = std::map<std::string_view, Rule>;

// bar.warp.sync, which shares its opcode with the block's barriers.
void barrier_of_warp(Decoder& decoder, const ptx::Instruction& written);

void add_integer_rules(Rules& rules);
void add_product_rules(Rules& rules);
void add_bit_rules(Rules& rules);
void add_logic_rules(Rules& rules);
void add_float_rules(Rules& rules);
void add_approximation_rules(Rules& rules);
void add_compare_rules(Rules& rules);
void add_convert_rules(Rules& rules);
void add_move_rules(Rules& rules);
void add_space_rules(Rules& rules);
void add_memory_rules(Rules& rules);
void add_atomic_rules(Rules& rules);
void add_control_rules(Rules& rules);
void add_warp_rules(Rules& rules);
void add_matrix_rules(Rules& rules);
void add_copy_rules(Rules& rules);
void add_mbarrier_rules(Rules& rules);
void add_video_rules(Rules& rules);

}  // namespace cudademo::emulator
