#include "decoder.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "block.hpp"
#include "lanes.hpp"
#include "postdominators.hpp"

namespace cudademo::emulator {

namespace {

constexpr std::size_t predicate_bytes = 0;
constexpr std::size_t row_alignment = 64;

// Rows from here on are constants' numbers: no register is as far into a frame.
constexpr Row first_constant = 0x80000000;

// The bytes of a lane in a row; 8-bit registers are kept as 16-bit ones.
std::size_t lane_bytes(std::size_t bytes) { return bytes == 1 ? 2 : bytes; }

std::size_t bytes_of_register(const ptx::Variable& variable) {
  return variable.type == "pred" ? predicate_bytes : lane_bytes(ptx::size_of(variable.type));
}

template <typename To, typename From>
Handler convert_bits() {
  return unary<To, From>([](From from) { return static_cast<To>(from); });
}

Handler narrowing(std::size_t to, std::size_t from) {
  if (from == 4) return convert_bits<std::uint16_t, std::uint32_t>();
  if (to == 2) return convert_bits<std::uint16_t, std::uint64_t>();
  return convert_bits<std::uint32_t, std::uint64_t>();
}

Handler extending(std::size_t to, std::size_t from, bool is_signed) {
  if (from == 2 && to == 4) {
    return is_signed ? convert_bits<std::int32_t, std::int16_t>()
                     : convert_bits<std::uint32_t, std::uint16_t>();
  }
  if (from == 2) {
    return is_signed ? convert_bits<std::int64_t, std::int16_t>()
                     : convert_bits<std::uint64_t, std::uint16_t>();
  }
  return is_signed ? convert_bits<std::int64_t, std::int32_t>()
                   : convert_bits<std::uint64_t, std::uint32_t>();
}

// ---- special registers ----

enum class Special : std::uint8_t {
  tid,
  ntid,
  ctaid,
  nctaid,
  laneid,
  warpid,
  nwarpid,
  zero,
  one,
  gridid,
  lanemask_eq,
  lanemask_le,
  lanemask_lt,
  lanemask_ge,
  lanemask_gt,
  clock,
  clock_hi,
  dynamic_shared_bytes,
  total_shared_bytes,
  reserved_shared,
};

struct SpecialName {
  std::string_view name;
  Special which;
};

constexpr SpecialName specials[] = {
    {"%tid", Special::tid},
    {"%ntid", Special::ntid},
    {"%ctaid", Special::ctaid},
    {"%nctaid", Special::nctaid},
    {"%laneid", Special::laneid},
    {"%warpid", Special::warpid},
    {"%nwarpid", Special::nwarpid},
    {"%smid", Special::zero},
    {"%nsmid", Special::one},
    {"%gridid", Special::gridid},
    {"%lanemask_eq", Special::lanemask_eq},
    {"%lanemask_le", Special::lanemask_le},
    {"%lanemask_lt", Special::lanemask_lt},
    {"%lanemask_ge", Special::lanemask_ge},
    {"%lanemask_gt", Special::lanemask_gt},
    {"%clock", Special::clock},
    {"%clock_hi", Special::clock_hi},
    {"%clock64", Special::clock},
    {"%globaltimer", Special::clock},
    {"%globaltimer_lo", Special::clock},
    {"%globaltimer_hi", Special::clock_hi},
    {"%dynamic_smem_size", Special::dynamic_shared_bytes},
    {"%total_smem_size", Special::total_shared_bytes},
    {"%aggr_smem_size", Special::total_shared_bytes},
    {"%reserved_smem_offset_begin", Special::zero},
    {"%reserved_smem_offset_end", Special::reserved_shared},
    {"%reserved_smem_offset_cap", Special::reserved_shared},
    {"%is_explicit_cluster", Special::zero},
    {"%current_graph_exec", Special::zero},
    {"%clusterid", Special::ctaid},
    {"%nclusterid", Special::nctaid},
    {"%cluster_ctaid", Special::zero},
    {"%cluster_nctaid", Special::one},
    {"%cluster_ctarank", Special::zero},
    {"%cluster_nctarank", Special::one},
};

const SpecialName* special_named(std::string_view name) {
  for (const SpecialName& known : specials) {
    if (known.name == name) return &known;
  }
  return nullptr;
}

// Of a row of this many bytes a lane; -1 is the address of dynamic shared memory.
Handler read_special(int which, std::size_t bytes);

}  // namespace

Decoder::Decoder(const ptx::Function& source, const std::map<std::string_view, Symbol>& symbols,
                 Function& made, std::uint32_t shared_base)
    : source_(source), symbols_(symbols), made_(made), shared_base_(shared_base) {}

Row Decoder::reserve(std::size_t bytes) {
  const std::size_t size = bytes == predicate_bytes ? sizeof(Mask) : bytes * lanes;
  const std::size_t at =
      align_up(made_.frame_bytes, bytes == predicate_bytes ? sizeof(Mask) : row_alignment);
  if (at + size > (std::size_t{1} << 30)) fail("a function with too many registers");
  made_.frame_bytes = static_cast<std::uint32_t>(at + size);
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
        const std::size_t width = bytes_of_register(variable);
        rows_[i] = reserve(width);
        // The further components of a vector lie behind the first.
        for (int k = 1; k < variable.vector; ++k) reserve(width);
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
    add_compare_rules(all);
    add_convert_rules(all);
    add_space_rules(all);
    add_memory_rules(all);
    add_atomic_rules(all);
    add_control_rules(all);
    add_warp_rules(all);
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

// ---- operands ----

Row Decoder::row_of(const ptx::Operand& operand) const {
  const auto index = static_cast<std::size_t>(operand.index);
  if (operand.component == 0) return rows_[index];
  const ptx::Variable& variable = source_.variables[index];
  const std::size_t component = std::string_view("xyzw").find(operand.component);
  if (component >= static_cast<std::size_t>(variable.vector)) fail("no such component");
  const std::size_t bytes = bytes_of_register(variable);
  const std::size_t step =
      bytes == predicate_bytes ? sizeof(Mask) : align_up(bytes * lanes, row_alignment);
  return rows_[index] + static_cast<Row>(component * step);
}

Row Decoder::address_in(const ptx::Operand& operand, std::size_t bytes) {
  bool wide = true;
  const Row whole = address(operand, wide);
  if (bytes == 8) return whole;
  const Row narrowed = temporary(bytes);
  emit(narrowing(bytes, 8), {narrowed, whole});
  return narrowed;
}

Row Decoder::temporary(std::size_t bytes) { return reserve(lane_bytes(bytes)); }

Row Decoder::constant(std::uint64_t bits, std::size_t bytes) {
  bytes = bytes == predicate_bytes ? bytes : lane_bytes(bytes);
  if (bytes != predicate_bytes && bytes < 8) bits &= (std::uint64_t{1} << (bytes * 8)) - 1;
  const auto [found, is_new] = constant_rows_.try_emplace({bits, bytes}, no_row);
  if (is_new) {
    found->second = first_constant + static_cast<Row>(constants_.size());
    constants_.push_back({bits, bytes});
  }
  return found->second;
}

Row Decoder::source(const ptx::Operand& operand, std::size_t bytes, bool is_float) {
  using Kind = ptx::Operand::Kind;
  const std::size_t wanted = bytes == predicate_bytes ? bytes : lane_bytes(bytes);
  switch (operand.kind) {
    case Kind::integer:
      if (is_float) {
        const auto value = static_cast<double>(static_cast<std::int64_t>(operand.bits));
        if (bytes == 4) return constant(std::bit_cast<std::uint32_t>(static_cast<float>(value)), 4);
        if (bytes == 8) return constant(std::bit_cast<std::uint64_t>(value), 8);
      }
      return constant(operand.bits, bytes);
    case Kind::single:
      if (bytes == 8) {
        const auto value =
            static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(operand.bits)));
        return constant(std::bit_cast<std::uint64_t>(value), 8);
      }
      return constant(operand.bits, bytes);
    case Kind::number:
      if (bytes == 4) {
        const auto value = static_cast<float>(std::bit_cast<double>(operand.bits));
        return constant(std::bit_cast<std::uint32_t>(value), 4);
      }
      return constant(operand.bits, bytes);
    case Kind::variable: {
      if (!operand.selector.empty()) fail("a part of a register");
      const auto index = static_cast<std::size_t>(operand.index);
      const ptx::Variable& variable = source_.variables[index];
      if (variable.space != ptx::Space::reg) return address_in(operand, wanted);
      const std::size_t has = bytes_of_register(variable);
      const Row row = row_of(operand);
      if (operand.negated) {
        if (has != predicate_bytes) fail("only a predicate can be negated");
        const Row negated = reserve(predicate_bytes);
        emit(
            [](Warp& warp, const Instruction& instruction, Mask) {
              predicate(warp, instruction.rows[0]) = ~predicate(warp, instruction.rows[1]);
            },
            {negated, row});
        return negated;
      }
      if (has == wanted) return row;
      if (has == predicate_bytes || wanted == predicate_bytes) fail("a predicate and a number");
      if (has < wanted) {
        // Bits of a narrower register: shfl and the like never ask, cvt and st may.
        if (wanted > 8) fail("an operand of the wrong size");
        const Row wider = temporary(wanted);
        emit(extending(wanted, has, false), {wider, row});
        return wider;
      }
      if (has > 8) fail("an operand of the wrong size");
      const Row narrowed = temporary(wanted);
      emit(narrowing(wanted, has), {narrowed, row});
      return narrowed;
    }
    case Kind::symbol: {
      if (operand.text == "WARP_SZ") return constant(lanes, bytes);
      const SpecialName* special = special_named(operand.text);
      if (special != nullptr) {
        const Row row = temporary(wanted);
        const unsigned axis =
            operand.component == 0 ? 0u : static_cast<unsigned>(operand.component - 'x');
        Instruction& read = emit(read_special(static_cast<int>(special->which), wanted), {row});
        read.detail = static_cast<std::uint8_t>(axis);
        return row;
      }
      if (operand.text.starts_with("%envreg") || operand.text.starts_with("%pm")) {
        return constant(0, bytes);
      }
      return address_in(operand, wanted);
    }
    default:
      fail("an operand of a kind that is not taken here");
  }
}

Row Decoder::result(const ptx::Operand& operand, std::size_t bytes, bool is_signed) {
  const std::size_t given = bytes == predicate_bytes ? bytes : lane_bytes(bytes);
  if (operand.kind == ptx::Operand::Kind::none) return reserve(given);
  if (operand.kind != ptx::Operand::Kind::variable || !operand.selector.empty()) {
    fail("the result is no register");
  }
  const auto index = static_cast<std::size_t>(operand.index);
  const ptx::Variable& variable = source_.variables[index];
  if (variable.space != ptx::Space::reg) fail("the result is no register");
  const std::size_t has = bytes_of_register(variable);
  const Row row = row_of(operand);
  if (has == given) return row;
  if (has < given || given == predicate_bytes || has > 8) fail("a result of the wrong size");
  const Row narrow_row = reserve(given);
  extensions_.push_back({extending(has, given, is_signed), row, narrow_row});
  return narrow_row;
}

Row Decoder::address(const ptx::Operand& base, bool& wide) {
  using Kind = ptx::Operand::Kind;
  wide = true;
  if (base.kind == Kind::integer) return constant(base.bits, 8);
  if (base.kind == Kind::variable) {
    const auto index = static_cast<std::size_t>(base.index);
    const ptx::Variable& variable = source_.variables[index];
    const auto offset = static_cast<std::uint64_t>(base.offset);
    switch (variable.space) {
      case ptx::Space::reg: {
        const std::size_t has = bytes_of_register(variable);
        if (has != 4 && has != 8) fail("an address in a register of neither 32 nor 64 bits");
        wide = has == 8;
        return rows_[index];
      }
      case ptx::Space::local: {
        const Row row = temporary(8);
        Instruction& made = emit(
            [](Warp& warp, const Instruction& instruction, Mask mask) {
              std::uint64_t values[lanes];
              for (unsigned lane = 0; lane < lanes; ++lane) {
                values[lane] = warp.frame().local_base[lane] +
                               static_cast<std::uint64_t>(instruction.immediate);
              }
              put(warp, instruction.rows[0], values, mask);
            },
            {row});
        made.immediate = static_cast<std::int64_t>(slots_[index].offset + offset);
        return row;
      }
      default:
        return constant(slots_[index].offset + offset, 8);
    }
  }
  if (base.kind != Kind::symbol) fail("an address is a register, a variable or a number");
  const Symbol* known = symbol(base.text);
  if (known == nullptr) fail("unknown name " + std::string(base.text));
  if (known->is_dynamic_shared) {
    const Row row = temporary(8);
    emit(read_special(-1, 8), {row}).immediate = base.offset;
    return row;
  }
  return constant(known->address + static_cast<std::uint64_t>(base.offset), 8);
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

// ---- special registers: what each reads ----

namespace {

template <typename T>
T special_value(Warp& warp, Special which, unsigned axis, unsigned lane) {
  const Launch& launch = warp.block().launch();
  const auto along = [axis](const Extent& extent) {
    return axis == 0 ? extent.x : axis == 1 ? extent.y : extent.z;
  };
  const Mask bit = Mask{1} << lane;
  switch (which) {
    case Special::tid:
      return static_cast<T>(warp.block().thread(warp.index(), lane)[axis % 3]);
    case Special::ntid:
      return static_cast<T>(along(launch.block));
    case Special::ctaid:
      return static_cast<T>(warp.block().index()[axis % 3]);
    case Special::nctaid:
      return static_cast<T>(along(launch.grid));
    case Special::laneid:
      return static_cast<T>(lane);
    case Special::warpid:
      return static_cast<T>(warp.index());
    case Special::nwarpid:
      return static_cast<T>((launch.block.count() + lanes - 1) / lanes);
    case Special::zero:
      return 0;
    case Special::one:
      return 1;
    case Special::gridid:
      return static_cast<T>(launch.number);
    case Special::lanemask_eq:
      return static_cast<T>(bit);
    case Special::lanemask_le:
      return static_cast<T>(bit | (bit - 1));
    case Special::lanemask_lt:
      return static_cast<T>(bit - 1);
    case Special::lanemask_ge:
      return static_cast<T>(~(bit - 1));
    case Special::lanemask_gt:
      return static_cast<T>(~(bit | (bit - 1)));
    case Special::clock:  // instructions so far: the same at each launch
      return static_cast<T>(warp.executed());
    case Special::clock_hi:
      return static_cast<T>(warp.executed() >> 32);
    case Special::dynamic_shared_bytes:
      return static_cast<T>(launch.dynamic_shared_bytes);
    case Special::total_shared_bytes:
      return static_cast<T>(warp.block().shared_bytes());
    case Special::reserved_shared:
      return static_cast<T>(reserved_shared_bytes);
  }
  return 0;
}

template <typename T, Special which>
void read(Warp& warp, const Instruction& instruction, Mask mask) {
  T values[lanes];
  for (unsigned lane = 0; lane < lanes; ++lane) {
    values[lane] = special_value<T>(warp, which, instruction.detail, lane);
  }
  put(warp, instruction.rows[0], values, mask);
}

template <typename T, std::size_t... which>
Handler select_special(int wanted, std::index_sequence<which...>) {
  constexpr Handler all[] = {read<T, static_cast<Special>(which)>...};
  return all[wanted];
}

template <typename T>
void read_dynamic_shared(Warp& warp, const Instruction& instruction, Mask mask) {
  T values[lanes];
  std::fill(values, values + lanes,
            static_cast<T>(warp.block().dynamic_shared_offset() +
                           static_cast<std::uint64_t>(instruction.immediate)));
  put(warp, instruction.rows[0], values, mask);
}

Handler read_special(int which, std::size_t bytes) {
  using Count = std::make_index_sequence<static_cast<std::size_t>(Special::reserved_shared) + 1>;
  if (which < 0) return read_dynamic_shared<std::uint64_t>;
  if (bytes == 8) return select_special<std::uint64_t>(which, Count());
  if (bytes == 2) return select_special<std::uint16_t>(which, Count());
  return select_special<std::uint32_t>(which, Count());
}

}  // namespace

}  // namespace cudademo::emulator
