#include "emulator/run/interpreter.h"

namespace stitch::emulator {
namespace {

template <class T>
void blend(std::byte* to, const std::byte* from, std::uint32_t lanes) {
  auto* target = reinterpret_cast<T*>(to);
  const auto* values = reinterpret_cast<const T*>(from);
  for (std::uint32_t lane = 0; lane < 32; ++lane)
    target[lane] = ((lanes >> lane) & 1) != 0 ? values[lane] : target[lane];
}

struct Pair {
  std::uint64_t low;
  std::uint64_t high;
};

}  // namespace

/// Element-wise: computed for all 32 lanes; when some must keep their value, into scratch and blended.
Interpreter::Step Interpreter::lane(const Instruction& in, std::uint32_t lanes) {
  LaneRows rows;
  rows.d = row(in.d);
  rows.a = row(in.a);
  rows.b = row(in.b);
  rows.c = row(in.c);
  rows.e = row(in.e);
  rows.immediate = in.immediate;
  const LaneFunction function = context_.lane_functions[in.lane_op];
  if (full(lanes)) {
    function(rows);
    return Step::next;
  }
  rows.d = scratch_.data();
  function(rows);
  switch (in.d_width) {
    case Width::predicate: {
      std::uint32_t value = 0;
      std::memcpy(&value, scratch_.data(), sizeof(value));
      set_mask(in.d, lanes, value);
      break;
    }
    case Width::b16: blend<std::uint16_t>(row(in.d), scratch_.data(), lanes); break;
    case Width::b32: blend<std::uint32_t>(row(in.d), scratch_.data(), lanes); break;
    case Width::b64: blend<std::uint64_t>(row(in.d), scratch_.data(), lanes); break;
    case Width::b128: blend<Pair>(row(in.d), scratch_.data(), lanes); break;
    case Width::none: break;
  }
  return Step::next;
}

std::uint64_t Interpreter::special_value(SpecialRegister reg, std::uint32_t lane) const {
  using R = SpecialRegister;
  const LaunchConfig& config = context_.config;
  const std::uint32_t thread = warp_->index * 32 + lane;
  const Dim3& cluster = config.cluster;
  const Dim3& block = block_->index;
  switch (reg) {
    case R::tid_x: return thread % config.block.x;
    case R::tid_y: return thread / config.block.x % config.block.y;
    case R::tid_z: return thread / (config.block.x * config.block.y);
    case R::ntid_x: return config.block.x;
    case R::ntid_y: return config.block.y;
    case R::ntid_z: return config.block.z;
    case R::ctaid_x: return block.x;
    case R::ctaid_y: return block.y;
    case R::ctaid_z: return block.z;
    case R::nctaid_x: return config.grid.x;
    case R::nctaid_y: return config.grid.y;
    case R::nctaid_z: return config.grid.z;
    case R::laneid: return lane;
    case R::warpid: return warp_->index;
    case R::nwarpid: return context_.warps_per_block;
    case R::smid: return block_->linear % 132;
    case R::nsmid: return 132;
    case R::gridid: return 1;
    case R::clusterid_x: return block.x / cluster.x;
    case R::clusterid_y: return block.y / cluster.y;
    case R::clusterid_z: return block.z / cluster.z;
    case R::nclusterid_x: return config.grid.x / cluster.x;
    case R::nclusterid_y: return config.grid.y / cluster.y;
    case R::nclusterid_z: return config.grid.z / cluster.z;
    case R::cluster_ctaid_x: return block.x % cluster.x;
    case R::cluster_ctaid_y: return block.y % cluster.y;
    case R::cluster_ctaid_z: return block.z % cluster.z;
    case R::cluster_nctaid_x: return cluster.x;
    case R::cluster_nctaid_y: return cluster.y;
    case R::cluster_nctaid_z: return cluster.z;
    case R::cluster_ctarank: return block_->rank;
    case R::cluster_nctarank: return cluster.count();
    case R::is_explicit_cluster: return cluster.count() > 1 ? 1 : 0;
    case R::lanemask_eq: return 1U << lane;
    case R::lanemask_lt: return (1U << lane) - 1;
    case R::lanemask_le: return (2U << lane) - 1;
    case R::lanemask_gt: return ~((2U << lane) - 1);
    case R::lanemask_ge: return ~((1U << lane) - 1);
    case R::clock:
    case R::globaltimer_lo: return static_cast<std::uint32_t>(warp_->executed + executed_ - turn_start_);
    case R::clock_hi:
    case R::globaltimer_hi: return (warp_->executed + executed_ - turn_start_) >> 32;
    case R::clock64:
    case R::globaltimer: return warp_->executed + executed_ - turn_start_;
    case R::dynamic_smem_size: return config.dynamic_shared_bytes;
    case R::total_smem_size:
    case R::aggr_smem_size: return context_.shared_bytes;
    case R::current_graph_exec:
    case R::driver_word: return 0;
    case R::grid_workspace_high: return context_.grid_workspace >> 32;
    case R::grid_workspace_low: return static_cast<std::uint32_t>(context_.grid_workspace);
  }
  return 0;
}

/// threadIdx of all lanes at once.
void Interpreter::thread_index(SpecialRegister reg, std::uint32_t* values) const {
  const Dim3& shape = context_.config.block;
  const std::uint32_t first = warp_->index * 32;
  std::uint32_t x = first % shape.x;
  std::uint32_t y = first / shape.x % shape.y;
  std::uint32_t z = first / (shape.x * shape.y);
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    values[lane] = reg == SpecialRegister::tid_x ? x : reg == SpecialRegister::tid_y ? y : z;
    if (++x < shape.x) continue;
    x = 0;
    if (++y < shape.y) continue;
    y = 0;
    ++z;
  }
}

Interpreter::Step Interpreter::special(const Instruction& in, std::uint32_t lanes) {
  const auto reg = in.form_as<SpecialRegister>();
  using R = SpecialRegister;
  if (in.d_width == Width::b32) {
    const bool of_thread = reg == R::tid_x || reg == R::tid_y || reg == R::tid_z;
    const bool of_lane = reg == R::laneid || (reg >= R::lanemask_eq && reg <= R::lanemask_gt);
    if (!of_lane) {
      std::array<std::uint32_t, 32> values;
      if (of_thread) {
        thread_index(reg, values.data());
      } else {
        values.fill(special_value(reg, 0));
      }
      set_row(in.d, lanes, values.data());
      return Step::next;
    }
  }
  std::array<std::uint64_t, 32> wide{};
  std::array<std::uint32_t, 32> narrow{};
  std::uint32_t mask = 0;
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    wide[lane] = special_value(reg, lane);
    narrow[lane] = wide[lane];
    mask |= (narrow[lane] & 1) << lane;
  }
  if (in.d_width == Width::b64) {
    set_row(in.d, lanes, wide.data());
  } else if (in.d_width == Width::b32) {
    set_row(in.d, lanes, narrow.data());
  } else {
    set_mask(in.d, lanes, mask);
  }
  return Step::next;
}

namespace {

std::uint64_t window_of(Space space) {
  switch (space) {
    case Space::shared:
    case Space::shared_cluster: return shared_window;
    case Space::local:
    case Space::frame: return local_window;
    case Space::parameter: return parameter_window;
    default: return 0;
  }
}

}  // namespace

Interpreter::Step Interpreter::to_generic(const Instruction& in, std::uint32_t lanes) {
  const std::uint64_t window = window_of(in.form_as<Space>());
  std::array<std::uint64_t, 32> values{};
  const auto* a = row_of<std::uint64_t>(in.a);
  for (std::size_t lane = 0; lane < 32; ++lane) values[lane] = a[lane] + window;
  set_row(in.d, lanes, values.data());
  return Step::next;
}

Interpreter::Step Interpreter::from_generic(const Instruction& in, std::uint32_t lanes) {
  const std::uint64_t window = window_of(in.form_as<Space>());
  std::array<std::uint64_t, 32> values{};
  const auto* a = row_of<std::uint64_t>(in.a);
  for (std::size_t lane = 0; lane < 32; ++lane) values[lane] = a[lane] - window;
  set_row(in.d, lanes, values.data());
  return Step::next;
}

Interpreter::Step Interpreter::is_space(const Instruction& in, std::uint32_t lanes) {
  const auto space = in.form_as<Space>();
  const auto* a = row_of<std::uint64_t>(in.a);
  const auto is_global = [this](std::uint64_t address) {
    return address >= global_base || context_.memory->region_at(address) != nullptr;
  };
  std::uint32_t result = 0;
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    const std::uint64_t window = window_of(space);
    bool inside = window == 0 ? is_global(a[lane]) : a[lane] - window < window_bytes;
    // Another block's shared memory is not the own.
    if (space == Space::shared && inside) {
      const std::uint64_t tag = (a[lane] - window) >> shared_rank_shift << shared_rank_shift;
      inside = tag == 0 || tag == shared_tag(block_->rank);
    }
    result |= (inside ? 1U : 0U) << lane;
  }
  set_mask(in.d, lanes, result);
  return Step::next;
}

/// mapa: the address, in the block of rank b, of what a is in this block. immediate: width; form: shared window or
/// generic.
Interpreter::Step Interpreter::map_shared(const Instruction& in, std::uint32_t lanes) {
  const auto* b = row_of<std::uint32_t>(in.b);
  constexpr std::uint64_t within = (std::uint64_t{1} << shared_rank_shift) - 1;
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if (((lanes >> lane) & 1) == 0) continue;
    const std::uint64_t a = in.immediate == 8 ? row_of<std::uint64_t>(in.a)[lane] : row_of<std::uint32_t>(in.a)[lane];
    const std::uint64_t window = in.form == 1 ? 0 : shared_window;
    const std::uint64_t mapped = window + shared_tag(b[lane]) + ((a - window) & within);
    if (b[lane] >= unit_->blocks.size()) {
      report(Detector::invalid_use, lane,
             [&] { return fmt::format("mapa to block rank {} of a cluster of {}", b[lane], unit_->blocks.size()); });
    }
    if (in.immediate == 8) {
      row_of<std::uint64_t>(in.d)[lane] = mapped;
    } else {
      row_of<std::uint32_t>(in.d)[lane] = mapped;
    }
  }
  return Step::next;
}

Interpreter::Step Interpreter::block_rank(const Instruction& in, std::uint32_t lanes) {
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if (((lanes >> lane) & 1) == 0) continue;
    const std::uint64_t a = in.immediate == 8 ? row_of<std::uint64_t>(in.a)[lane] : row_of<std::uint32_t>(in.a)[lane];
    const std::uint64_t tag = (in.form == 1 ? a : a - shared_window) >> shared_rank_shift;
    row_of<std::uint32_t>(in.d)[lane] = tag == 0 ? block_->rank : tag - 1;
  }
  return Step::next;
}

}  // namespace stitch::emulator
