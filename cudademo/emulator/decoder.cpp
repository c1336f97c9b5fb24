#include "decoder.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "lanes.hpp"
#include "postdominators.hpp"
#include "registers.hpp"
#include "row_guards.hpp"

namespace cudademo::emulator {

Decoder::Decoder(const ptx::Function& source, const std::map<std::string_view, Symbol>& symbols,
                 Function& made, std::uint32_t shared_base)
    : source_(source), symbols_(symbols), made_(made), shared_base_(shared_base) {}

// The further components of a vector lie behind the first.
Row Decoder::reserve(std::size_t bytes, unsigned components) {
  const std::size_t step =
      bytes == predicate_bytes ? sizeof(Mask) : align_up(bytes * lanes, row_alignment);
  const std::size_t size = step * components;
  const std::size_t at =
      align_up(made_.frame_bytes, bytes == predicate_bytes ? sizeof(Mask) : row_alignment);
  if (at + size > (std::size_t{1} << 28)) fail("a function with too many registers");
  if (gap_bytes != 0) made_.gaps.push_back(static_cast<std::uint32_t>(align_up(at + size, 8)));
  made_.frame_bytes =
      static_cast<std::uint32_t>(align_up(at + size, gap_bytes != 0 ? 8 : 1) + gap_bytes);
  return static_cast<Row>(at);
}

namespace {

void count_mentions(const ptx::Operand& operand, std::vector<std::uint32_t>& mentions) {
  if (operand.index >= 0 && operand.kind == ptx::Operand::Kind::variable) {
    ++mentions[static_cast<std::size_t>(operand.index)];
  }
  for (const ptx::Operand& item : operand.items) count_mentions(item, mentions);
}

}  // namespace

bool Decoder::is_used(const ptx::Operand& result) const {
  return result.kind == ptx::Operand::Kind::variable &&
         mentions_[static_cast<std::size_t>(result.index)] > 1;
}

void Decoder::place_variables() {
  mentions_.assign(source_.variables.size(), 0);
  for (const ptx::Instruction& written : source_.code) {
    for (const ptx::Operand& operand : written.operands) count_mentions(operand, mentions_);
    if (written.guard >= 0) ++mentions_[static_cast<std::size_t>(written.guard)];
  }
  rows_.assign(source_.variables.size(), no_row);
  slots_.assign(source_.variables.size(), {});
  std::size_t local = 0;
  std::size_t parameter = 0;
  std::size_t shared = shared_base_;
  for (std::size_t i = 0; i < source_.variables.size(); ++i) {
    const ptx::Variable& variable = source_.variables[i];
    const std::size_t bytes =
        ptx::size_of(variable.type) * static_cast<std::size_t>(variable.vector) * variable.count;
    const auto place = [&](std::size_t& top) {
      top = align_up(top, variable.align);
      slots_[i] = {static_cast<std::uint32_t>(top), static_cast<std::uint32_t>(bytes)};
      top += bytes;
      if (top > (std::size_t{1} << 28)) fail("variables too large");
    };
    switch (variable.space) {
      case ptx::Space::reg: {
        rows_[i] = reserve(bytes_of_register(variable), static_cast<unsigned>(variable.vector));
        break;
      }
      case ptx::Space::local:
        place(local);
        break;
      case ptx::Space::param:
        place(parameter);
        break;
      case ptx::Space::shared:
        place(shared);
        break;
      default:
        fail("a variable in a space that functions have not");
    }
  }
  made_.local_bytes = static_cast<std::uint32_t>(align_up(local, 16));
  made_.parameter_bytes = static_cast<std::uint32_t>(align_up(parameter, 16));
  made_.static_shared_bytes = static_cast<std::uint32_t>(shared);
  for (const int index : source_.parameters) made_.parameters.push_back(slot(index));
  for (const int index : source_.results) made_.results.push_back(slot(index));
}

void Decoder::run() {
  static const Rules rules = [] {
    Rules all;
    add_integer_rules(all);
    add_product_rules(all);
    add_bit_rules(all);
    add_logic_rules(all);
    add_float_rules(all);
    add_approximation_rules(all);
    add_compare_rules(all);
    add_convert_rules(all);
    add_move_rules(all);
    add_space_rules(all);
    add_memory_rules(all);
    add_atomic_rules(all);
    add_control_rules(all);
    add_warp_rules(all);
    add_matrix_rules(all);
    add_copy_rules(all);
    add_mbarrier_rules(all);
    add_video_rules(all);
    return all;
  }();
  made_.name = std::string(source_.name);
  made_.is_entry = source_.is_entry;
  if (source_.max_threads != 0) made_.max_threads = source_.max_threads;
  place_variables();
  for (const ptx::Instruction& written : source_.code) {
    positions_.push_back(static_cast<std::uint32_t>(made_.code.size()));
    current_ = &written;
    const std::size_t first = made_.code.size();
    try {
      const auto rule = rules.find(written.opcode);
      if (rule == rules.end()) fail("this instruction is not emulated");
      rule->second(*this, written);
    } catch (const ptx::ParseError& error) {  // matters only to those who come here
      made_.code.resize(first);
      extensions_.clear();
      refuse(error.what());
    }
    for (const Extension& extension : std::exchange(extensions_, {})) {
      emit(extension.handler, {extension.to, extension.from});
    }
    for (std::size_t i = first; i < made_.code.size(); ++i) {
      made_.code[i].written = &written;
      if (written.guard < 0) continue;
      made_.code[i].guard = rows_[static_cast<std::size_t>(written.guard)];
      made_.code[i].guard_negated = written.guard_negated;
    }
  }
  positions_.push_back(static_cast<std::uint32_t>(made_.code.size()));
  current_ = nullptr;
  emit([](Warp& warp, const Instruction&, Mask) { warp.leave_function(); }, {});
  for (Instruction& instruction : made_.code) {  // from PTX's places to the code's
    if (instruction.is_branch && instruction.more == nullptr) {
      instruction.target = positions_[instruction.target];
    }
  }
  for (const auto& list : made_.target_lists) {
    for (std::uint32_t& target : *list) target = positions_[target];
  }
  find_reconvergence();
  place_constants();
  made_.registers = static_cast<std::uint32_t>(std::min<std::size_t>(rows_.size(), 255));
}

// Constants have rows behind the registers; until now an instruction had their numbers.
void Decoder::place_constants() {
  made_.constants_offset = static_cast<std::uint32_t>(align_up(made_.frame_bytes, row_alignment));
  std::vector<Row> rows;
  for (const Constant& constant : constants_) {
    if (gap_bytes != 0) {
      made_.gaps.push_back(made_.constants_offset +
                           static_cast<std::uint32_t>(made_.constants.size()));
      made_.constants.resize(made_.constants.size() + gap_bytes);
    }
    const std::size_t begin = made_.constants.size();
    rows.push_back(static_cast<Row>(made_.constants_offset + begin));
    if (constant.bytes == predicate_bytes) {
      made_.constants.resize(begin + row_alignment);
      const Mask value = constant.bits != 0 ? all_lanes : 0;
      std::memcpy(made_.constants.data() + begin, &value, sizeof(value));
      continue;
    }
    made_.constants.resize(begin + align_up(constant.bytes * lanes, row_alignment));
    for (unsigned lane = 0; lane < lanes; ++lane) {
      std::memcpy(made_.constants.data() + begin + lane * constant.bytes, &constant.bits,
                  std::min<std::size_t>(constant.bytes, 8));
    }
  }
  for (const auto& list : made_.row_lists) {
    for (std::size_t i = 1; i <= list[0]; ++i) {
      const Row number = list[i] - first_constant;
      if (list[i] >= first_constant && number < rows.size()) list[i] = rows[number];
    }
  }
  made_.frame_bytes = made_.constants_offset + static_cast<std::uint32_t>(made_.constants.size());
}

void Decoder::refuse(const char* what) {
  made_.texts.push_back(std::make_unique<std::string>(what));
  emit(
      [](Warp& warp, const Instruction& instruction, Mask mask) {
        warp.fail(kind::unsupported, static_cast<unsigned>(std::countr_zero(mask)),
                  *static_cast<const std::string*>(instruction.more));
      },
      {})
      .more = made_.texts.back().get();
}

void Decoder::find_reconvergence() {
  const auto end = static_cast<std::uint32_t>(made_.code.size() - 1);
  std::vector<Successors> graph(made_.code.size());
  for (std::uint32_t i = 0; i < end; ++i) {
    const Instruction& instruction = made_.code[i];
    Successors& next = graph[i];
    if (instruction.is_exit) {
      next.to.push_back(end);
    } else if (!instruction.is_branch) {
      next.to.push_back(i + 1);
    } else if (instruction.more != nullptr) {
      next.to = *static_cast<const std::vector<std::uint32_t>*>(instruction.more);
    } else {
      next.to.push_back(instruction.target);
    }
    if (instruction.guard != no_row && (instruction.is_branch || instruction.is_exit)) {
      next.to.push_back(i + 1);
    }
  }
  const std::vector<std::uint32_t> immediate = post_dominators(graph);
  for (std::uint32_t i = 0; i < end; ++i) {
    if (made_.code[i].is_branch) made_.code[i].reconverge = immediate[i];
  }
}

Instruction& Decoder::emit(Handler handler, std::initializer_list<Row> rows) {
  return emit(handler, std::vector<Row>(rows));
}

Instruction& Decoder::emit(Handler handler, const std::vector<Row>& rows) {
  auto list = std::make_unique<Row[]>(rows.size() + 1);
  list[0] = static_cast<Row>(rows.size());  // behind which the rows stand
  std::copy(rows.begin(), rows.end(), list.get() + 1);
  Instruction made;
  made.execute = handler;
  made.rows = list.get() + 1;
  made.count = static_cast<std::uint8_t>(rows.size());
  made_.row_lists.push_back(std::move(list));
  made_.code.push_back(made);
  return made_.code.back();
}

const Symbol* Decoder::symbol(std::string_view name) const {
  const auto found = symbols_.find(name);
  return found == symbols_.end() ? nullptr : &found->second;
}

std::uint32_t Decoder::position_of(int label) const {
  return static_cast<std::uint32_t>(source_.labels[static_cast<std::size_t>(label)].position);
}

const ptx::Label& Decoder::label(int index) const {
  return source_.labels[static_cast<std::size_t>(index)];
}

Slot Decoder::slot(int variable) const { return slots_[static_cast<std::size_t>(variable)]; }

CallSite& Decoder::call_site() {
  made_.calls.push_back(std::make_unique<CallSite>());
  return *made_.calls.back();
}

std::vector<std::uint32_t>& Decoder::target_list() {
  made_.target_lists.push_back(std::make_unique<std::vector<std::uint32_t>>());
  return *made_.target_lists.back();
}

std::uint32_t Decoder::end() const noexcept {
  return static_cast<std::uint32_t>(source_.code.size());
}

void Decoder::fail(const std::string& what) const {
  std::string message = what;
  if (current_ != nullptr) {
    message += ": " + std::string(current_->opcode);
    for (const std::string_view modifier : current_->modifiers) {
      message += "." + std::string(modifier);
    }
    if (current_->location.line != 0) {
      message += " of line " + std::to_string(current_->location.line);
    }
    message += " (line " + std::to_string(current_->text_line) + " of the PTX)";
  }
  throw ptx::ParseError(std::string(source_.name) + ": " + message);
}

void Decoder::require(std::size_t operands) const {
  if (current_->operands.size() < operands) fail("too few operands");
}

std::size_t Decoder::bytes_of(std::string_view type,
                              std::initializer_list<std::size_t> taken) const {
  const std::size_t bytes = ptx::size_of(type);
  if (std::find(taken.begin(), taken.end(), bytes) == taken.end()) fail("not for this type");
  return bytes;
}

}  // namespace cudademo::emulator
