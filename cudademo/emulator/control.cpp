// Branches, calls and barriers.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <string>

#include "block.hpp"
#include "lanes.hpp"

namespace cudademo::emulator {

namespace {

void bra(Decoder& d, const ptx::Instruction& w) {
  d.require(1);
  if (w.operands[0].kind != ptx::Operand::Kind::label) d.fail("no such label");
  Instruction& made =
      d.emit([](Warp& warp, const Instruction& instruction,
                Mask mask) { warp.branch(mask, instruction.target, instruction.reconverge); },
             {});
  made.is_branch = true;
  made.target = d.position_of(w.operands[0].index);
}

void brx(Decoder& d, const ptx::Instruction& w) {
  d.require(2);
  if (w.operands[1].kind != ptx::Operand::Kind::label) d.fail("no such list of labels");
  const Row index = d.source(w.operands[0], 4);
  std::vector<u32>& targets = d.target_list();
  for (const std::size_t target : d.label(w.operands[1].index).targets) {
    targets.push_back(static_cast<u32>(target));
  }
  Instruction& made = d.emit(
      [](Warp& warp, const Instruction& instruction, Mask mask) {
        const auto& list = *static_cast<const std::vector<u32>*>(instruction.more);
        const u32* which = row<u32>(warp, instruction.rows[0]);
        u32 places[lanes]{};
        for (unsigned lane = 0; lane < lanes; ++lane) {
          if (!is_set(mask, lane)) continue;
          if (which[lane] >= list.size()) {
            warp.fail(kind::invalid, lane, "an indirect branch past the end of its list");
          }
          places[lane] = list[which[lane]];
        }
        warp.branch_each(mask, places, instruction.reconverge);
      },
      {index});
  made.is_branch = true;
  made.more = &targets;
}

void ret(Decoder& d, const ptx::Instruction&) {
  Instruction& made =
      d.emit([](Warp& warp, const Instruction& instruction,
                Mask mask) { warp.branch(mask, instruction.target, instruction.reconverge); },
             {});
  made.is_branch = true;
  made.target = d.end();
}

void exit(Decoder& d, const ptx::Instruction&) {
  d.emit([](Warp& warp, const Instruction&, Mask mask) { warp.exit(mask); }, {}).is_exit = true;
}

void trap(Decoder& d, const ptx::Instruction&) {
  d.emit([](Warp& warp, const Instruction&,
            Mask mask) { warp.fail(kind::trap, first_lane(mask), "the kernel trapped"); },
         {});
}

// ---- calls ----

std::vector<Slot> slots_of(Decoder& d, const ptx::Operand& list) {
  std::vector<Slot> slots;
  for (const ptx::Operand& item : list.items) {
    if (item.kind != ptx::Operand::Kind::variable) d.fail("an argument that is no .param variable");
    if (d.source().variables[static_cast<std::size_t>(item.index)].space != ptx::Space::param) {
      d.fail("an argument that is no .param variable");
    }
    slots.push_back(d.slot(item.index));
  }
  return slots;
}

void call_direct(Warp& warp, const Instruction& instruction, Mask mask) {
  const auto& site = *static_cast<const CallSite*>(instruction.more);
  warp.call(site, *site.callee, mask);
}

void call_indirect(Warp& warp, const Instruction& instruction, Mask mask) {
  const auto& site = *static_cast<const CallSite*>(instruction.more);
  const u64* targets = row<u64>(warp, instruction.rows[0]);
  const auto& functions = warp.block().launch().program->functions;
  std::array<const Function*, lanes> callees{};
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if (!is_set(mask, lane)) continue;
    const u64 offset = targets[lane] - code_window;
    if (targets[lane] < code_window || offset % 16 != 0 || offset / 16 >= functions.size()) {
      warp.fail(kind::invalid, lane, "a call through a pointer that is no function's");
    }
    callees[lane] = functions[offset / 16].get();
  }
  warp.call_each(site, callees, mask);
}

// call (result), function, (arguments), prototype: all but the function may be missing.
void call(Decoder& d, const ptx::Instruction& w) {
  std::size_t at = 0;
  d.require(1);
  CallSite& site = d.call_site();
  if (w.operands[at].kind == ptx::Operand::Kind::list) {
    site.results = slots_of(d, w.operands[at]);
    d.require(++at + 1);
  }
  const ptx::Operand& callee = w.operands[at++];
  if (at < w.operands.size() && w.operands[at].kind == ptx::Operand::Kind::list) {
    site.arguments = slots_of(d, w.operands[at]);
  }
  if (callee.kind == ptx::Operand::Kind::symbol) {
    const Symbol* known = d.symbol(callee.text);
    if (known == nullptr || known->function == nullptr) {
      d.fail("no function " + std::string(callee.text));
    }
    site.callee = known->function;
    if (site.callee->system_call != nullptr) d.mark_communication();  // output keeps its order
    d.emit(call_direct, {}).more = &site;
    return;
  }
  d.mark_communication();  // who knows
  const Row target = d.source(callee, 8);
  d.emit(call_indirect, {target}).more = &site;
}

// ---- barriers ----

enum BarrierKind : std::uint8_t { waits, arrives, reduces_count, reduces_and, reduces_or };

constexpr unsigned aligned = 8;

// rows: the barrier, the threads or none, a reduction's result and its predicate.
void barrier(Warp& warp, const Instruction& instruction, Mask mask) {
  const unsigned lane = first_lane(mask);
  Block& block = warp.block();
  const u32 number = row<u32>(warp, instruction.rows[0])[lane];
  const u32 threads = instruction.rows[1] == no_row ? 0 : row<u32>(warp, instruction.rows[1])[lane];
  const unsigned what = instruction.detail & 7;
  if (number > 15) warp.fail(kind::barrier, lane, "barriers are numbered 0 to 15");
  if (threads % lanes != 0) {
    warp.fail(kind::barrier, lane, "a barrier for a number of threads that is no multiple of 32");
  }
  if ((instruction.detail & aligned) != 0 && block.launch().options.checks) {
    if (mask != warp.live()) {
      warp.fail(kind::barrier, lane,
                "a barrier that only " + std::to_string(std::popcount(mask)) + " of the " +
                    std::to_string(std::popcount(warp.live())) +
                    " threads of a warp come to: it stands in divergent code");
    }
    if (threads == 0 && block.has_exited()) {
      warp.fail(kind::barrier, lane,
                "a barrier that not all threads come to: some have returned before it");
    }
  }
  Barrier& state = block.barrier(static_cast<int>(number));
  if (what >= reduces_count) {
    const Mask values = predicate(warp, instruction.rows[3]);
    state.predicate_count += static_cast<u32>(std::popcount(values & mask));
    state.all = state.all && (values & mask) == mask;
    state.any = state.any || (values & mask) != 0;
  }
  block.arrive(warp, static_cast<int>(number), threads, mask, what != arrives);
}

// Behind a reduction's barrier: what it came to.
void reduced(Warp& warp, const Instruction& instruction, Mask mask) {
  const u32 number = row<u32>(warp, instruction.rows[1])[first_lane(mask)];
  const Block::Reduction& made = warp.block().reduction(static_cast<int>(number));
  if (instruction.detail == reduces_count) {
    u32 values[lanes];
    std::fill(values, values + lanes, made.count);
    put(warp, instruction.rows[0], values, mask);
    return;
  }
  const bool value = instruction.detail == reduces_and ? made.all : made.any;
  put_mask(warp, instruction.rows[0], value ? all_lanes : 0, mask);
}

void bar(Decoder& d, const ptx::Instruction& w) {
  if (w.has("warp")) return barrier_of_warp(d, w);
  if (w.has("cluster")) d.fail("clusters are not emulated");
  d.require(1);
  unsigned detail = w.has("arrive") ? arrives : waits;
  std::size_t at = 0;
  if (w.has("red")) {
    detail = w.has("popc") ? reduces_count : w.has("and") ? reduces_and : reduces_or;
    at = 1;
    d.require(3);
  }
  const bool is_aligned = w.opcode == "bar" || w.has("aligned");
  const Row number = d.source(w.operands[at], 4);
  const std::size_t last = w.operands.size() - (at != 0 ? 1 : 0);
  const Row threads = at + 1 < last ? d.source(w.operands[at + 1], 4) : no_row;
  const Row value = at != 0 ? d.source(w.operands.back(), 0) : no_row;
  d.emit(barrier, {number, threads, no_row, value}).detail =
      static_cast<std::uint8_t>(detail | (is_aligned ? aligned : 0));
  if (at == 0) return;
  const Row result = d.result(w.operands[0], detail == reduces_count ? 4 : 0);
  d.emit(reduced, {result, number}).detail = static_cast<std::uint8_t>(detail);
}

// A sleeping warp lets the others run.
void nanosleep(Decoder& d, const ptx::Instruction&) {
  d.emit([](Warp& warp, const Instruction&, Mask) { warp.yield(); }, {});
}

void nothing(Decoder&, const ptx::Instruction&) {}

void alloca_rule(Decoder& d, const ptx::Instruction& w) {
  d.require(2);
  const Row size = d.source(w.operands[1], 8);
  const Row result = d.result(w.operands[0], 8);
  d.emit(
      [](Warp& warp, const Instruction& instruction, Mask mask) {
        const u64* sizes = row<u64>(warp, instruction.rows[1]);
        u64* result_row = row<u64>(warp, instruction.rows[0]);
        for (unsigned lane = 0; lane < lanes; ++lane) {
          if (!is_set(mask, lane)) continue;
          const u32 top = (warp.local_top(lane) + 15) / 16 * 16;
          const u64 bytes = std::min<u64>(sizes[lane], u64{1} << 30);
          warp.set_local_top(lane, top + static_cast<u32>(bytes));
          result_row[lane] = top;
        }
      },
      {result, size});
}

// The stack grows upwards here; what it is at is opaque to the kernel.
template <typename T>
void stacksave_of(Decoder& d, const ptx::Instruction& w) {
  d.emit(
      [](Warp& warp, const Instruction& instruction, Mask mask) {
        T values[lanes];
        for (unsigned lane = 0; lane < lanes; ++lane) values[lane] = warp.local_top(lane);
        put(warp, instruction.rows[0], values, mask);
      },
      {d.result(w.operands[0], sizeof(T))});
}

template <typename T>
void stackrestore_of(Decoder& d, const ptx::Instruction& w) {
  d.emit(
      [](Warp& warp, const Instruction& instruction, Mask mask) {
        const T* values = row<T>(warp, instruction.rows[0]);
        for (unsigned lane = 0; lane < lanes; ++lane) {
          if (is_set(mask, lane)) warp.set_local_top(lane, static_cast<u32>(values[lane]));
        }
      },
      {d.source(w.operands[0], sizeof(T))});
}

void stacksave(Decoder& d, const ptx::Instruction& w) {
  d.require(1);
  last_type(w) == "u32" ? stacksave_of<u32>(d, w) : stacksave_of<u64>(d, w);
}

void stackrestore(Decoder& d, const ptx::Instruction& w) {
  d.require(1);
  last_type(w) == "u32" ? stackrestore_of<u32>(d, w) : stackrestore_of<u64>(d, w);
}

}  // namespace

void add_control_rules(Rules& rules) {
  rules["bra"] = bra;
  rules["brx"] = brx;
  rules["ret"] = ret;
  rules["exit"] = exit;
  rules["trap"] = trap;
  rules["call"] = call;
  rules["bar"] = bar;
  rules["barrier"] = bar;
  rules["nanosleep"] = nanosleep;
  rules["brkpt"] = nothing;
  rules["pmevent"] = nothing;
  rules["setmaxnreg"] = nothing;
  rules["griddepcontrol"] = nothing;
  rules["alloca"] = alloca_rule;
  rules["stacksave"] = stacksave;
  rules["stackrestore"] = stackrestore;
}

}  // namespace cudademo::emulator
