#include "special_registers.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "block.hpp"
#include "lanes.hpp"

namespace cudademo::emulator {

namespace {

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
  grid_workspace,
  grid_workspace_hi,
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
    {"%envreg1", Special::grid_workspace_hi},
    {"%envreg2", Special::grid_workspace},
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

template <typename T>
T special_value(Warp& warp, Special which, unsigned axis, unsigned lane) {
  const Launch& launch = warp.block().launch();
  const auto along = [axis](const Extent& extent) {
    return axis == 0 ? extent.x : axis == 1 ? extent.y : extent.z;
  };
  const Mask bit = Mask{1} << lane;
  const Mask below = bit - 1;
  const Mask above = ~(bit | below);
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
      return static_cast<T>(bit | below);
    case Special::lanemask_lt:
      return static_cast<T>(below);
    case Special::lanemask_ge:
      return static_cast<T>(bit | above);
    case Special::lanemask_gt:
      return static_cast<T>(above);
    case Special::clock:  // instructions so far: the same at each launch
      return static_cast<T>(warp.executed());
    case Special::clock_hi:
      return static_cast<T>(warp.executed() >> 32);
    case Special::dynamic_shared_bytes:
      return static_cast<T>(launch.dynamic_shared_bytes);
    case Special::total_shared_bytes:
      return static_cast<T>(warp.block().shared_bytes());
    case Special::grid_workspace:
      return static_cast<T>(launch.grid_workspace);
    case Special::grid_workspace_hi:
      return static_cast<T>(launch.grid_workspace >> 32);
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

}  // namespace

Handler special_register(std::string_view name, std::size_t bytes) {
  using Count = std::make_index_sequence<static_cast<std::size_t>(Special::reserved_shared) + 1>;
  const SpecialName* special = special_named(name);
  if (special == nullptr) return nullptr;
  const int which = static_cast<int>(special->which);
  if (bytes == 8) return select_special<std::uint64_t>(which, Count());
  if (bytes == 2) return select_special<std::uint16_t>(which, Count());
  return select_special<std::uint32_t>(which, Count());
}

void read_dynamic_shared(Warp& warp, const Instruction& instruction, Mask mask) {
  std::uint64_t values[lanes];
  std::fill(
      values, values + lanes,
      warp.block().dynamic_shared_offset() + static_cast<std::uint64_t>(instruction.immediate));
  put(warp, instruction.rows[0], values, mask);
}

}  // namespace cudademo::emulator
