#include "emulator/run/launch.h"

#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <array>

#include "base/processors.h"
#include "base/random.h"
#include "emulator/decode/code.h"
#include "emulator/lanes/lane_ops.h"
#include "emulator/run/interpreter.h"
#include "emulator/run/launch_context.h"
#include "emulator/run/scheduler.h"

namespace stitch::emulator {
namespace {

/// Limits that depend on the architecture (CUDA C++ Programming Guide, compute capabilities).
struct ArchitectureLimits {
  int architecture;
  std::uint32_t shared_bytes;    ///< per block, opt-in maximum
  std::uint32_t cluster_blocks;  ///< non-portable maximum
};
constexpr ArchitectureLimits limits_table[] = {
    {70, 96 * 1024, 1}, {75, 64 * 1024, 1},   {80, 163 * 1024, 1},   {86, 99 * 1024, 1},    {87, 163 * 1024, 1},
    {89, 99 * 1024, 1}, {90, 227 * 1024, 16}, {100, 227 * 1024, 16}, {103, 227 * 1024, 16}, {120, 99 * 1024, 8}};

ArchitectureLimits limits_of(int architecture) {
  ArchitectureLimits limits = limits_table[0];
  for (const ArchitectureLimits& row : limits_table) {
    if (row.architecture <= architecture) limits = row;
  }
  return limits;
}

constexpr std::uint32_t max_threads = 1024;
constexpr std::uint64_t max_ordinals = (std::uint64_t{1} << 26) - 2;  // what an Epoch can name

Status check_shape(const Code& code, const LaunchConfig& config, std::uint32_t shared_bytes) {
  for (const Dim3& dimensions : {config.grid, config.block, config.cluster}) {
    if (dimensions.x == 0 || dimensions.y == 0 || dimensions.z == 0) {
      return make_error(ErrorKind::invalid_argument, "kernel {}: a launch dimension is zero", code.name);
    }
  }
  const ArchitectureLimits limits = limits_of(code.architecture);
  const std::uint64_t threads = config.block.count();
  if (threads > max_threads || config.block.z > 64) {
    return make_error(ErrorKind::constraint, "kernel {}: {} threads per block, at most {}", code.name, threads,
                      max_threads);
  }
  if (code.required_block.x != 0 && config.block != code.required_block) {
    return make_error(ErrorKind::constraint, "kernel {} must be launched with blocks of ({},{},{}) threads", code.name,
                      code.required_block.x, code.required_block.y, code.required_block.z);
  }
  if (code.maximum_block.x != 0 && threads > code.maximum_block.count()) {
    return make_error(ErrorKind::constraint, "kernel {}: {} threads per block, its launch bounds allow {}", code.name,
                      threads, code.maximum_block.count());
  }
  if (shared_bytes > limits.shared_bytes) {
    return make_error(ErrorKind::constraint, "kernel {}: {} bytes of shared memory, {} has {}", code.name, shared_bytes,
                      code.target, limits.shared_bytes);
  }
  if (code.required_cluster.x != 0 && config.cluster != code.required_cluster) {
    return make_error(ErrorKind::constraint, "kernel {} must be launched with clusters of ({},{},{}) blocks", code.name,
                      code.required_cluster.x, code.required_cluster.y, code.required_cluster.z);
  }
  if (config.cluster.count() > limits.cluster_blocks) {
    return make_error(ErrorKind::constraint, "kernel {}: clusters of {} blocks, {} has at most {}", code.name,
                      config.cluster.count(), code.target, limits.cluster_blocks);
  }
  const Dim3& cluster = config.cluster;
  if (config.grid.x % cluster.x != 0 || config.grid.y % cluster.y != 0 || config.grid.z % cluster.z != 0) {
    return make_error(ErrorKind::invalid_argument, "kernel {}: the grid is not a multiple of the cluster", code.name);
  }
  return {};
}

/// Linear indices of a cluster's blocks, by rank.
void append_cluster(const LaunchConfig& config, const Dim3& first, std::vector<std::uint64_t>& blocks) {
  for (std::uint32_t z = first.z; z < first.z + config.cluster.z; ++z) {
    for (std::uint32_t y = first.y; y < first.y + config.cluster.y; ++y) {
      for (std::uint32_t x = first.x; x < first.x + config.cluster.x; ++x) {
        blocks.push_back((std::uint64_t{z} * config.grid.y + y) * config.grid.x + x);
      }
    }
  }
}

Dim3 cluster_start(const LaunchConfig& config, std::uint64_t linear) {
  const Dim3 index = config.grid.index_of(linear);
  const Dim3& cluster = config.cluster;
  return {index.x / cluster.x * cluster.x, index.y / cluster.y * cluster.y, index.z / cluster.z * cluster.z};
}

/// The blocks to run, clusters together and their blocks in order of rank.
Result<std::vector<std::uint64_t>> choose_blocks(const LaunchConfig& config, std::span<const std::uint64_t> wanted) {
  const std::uint64_t total = config.grid.count();
  std::vector<std::uint64_t> blocks;
  if (wanted.empty()) {
    if (total > max_ordinals) return make_error(ErrorKind::unsupported, "a grid of {} blocks; run a part of it", total);
    blocks.reserve(total);
    for (std::uint32_t z = 0; z < config.grid.z; z += config.cluster.z) {
      for (std::uint32_t y = 0; y < config.grid.y; y += config.cluster.y) {
        for (std::uint32_t x = 0; x < config.grid.x; x += config.cluster.x) append_cluster(config, {x, y, z}, blocks);
      }
    }
    return blocks;
  }
  if (wanted.size() > max_ordinals) return make_error(ErrorKind::unsupported, "{} blocks are too many", wanted.size());
  if (wanted.back() >= total || !std::ranges::is_sorted(wanted, std::less_equal{})) {
    return make_error(ErrorKind::invalid_argument, "the list of blocks must be ascending and inside the grid of {}",
                      total);
  }
  for (const std::uint64_t linear : wanted) {
    const Dim3 start = cluster_start(config, linear);
    const std::uint64_t first = (std::uint64_t{start.z} * config.grid.y + start.y) * config.grid.x + start.x;
    if (first != linear) continue;
    append_cluster(config, start, blocks);
  }
  std::vector<std::uint64_t> sorted = blocks;
  std::ranges::sort(sorted);
  if (!std::ranges::equal(sorted, wanted)) {
    return make_error(ErrorKind::invalid_argument, "the list of blocks cuts a cluster apart");
  }
  return blocks;
}

/// Brings units of so many blocks into an order that is as likely as any other.
void shuffle_units(std::vector<std::uint64_t>& blocks, std::size_t blocks_per_unit, std::uint64_t seed) {
  Random random(seed);
  for (std::size_t i = blocks.size() / blocks_per_unit; i > 1; --i) {
    const auto last = blocks.begin() + (i - 1) * blocks_per_unit;
    std::swap_ranges(last, last + blocks_per_unit, blocks.begin() + random.below(i) * blocks_per_unit);
  }
}

/// Where cooperative_groups finds the barrier of a grid: kept with the module, and new for every launch.
Result<std::uint64_t> place_grid_workspace(const Code& code, Memory& memory) {
  const auto asks = [](const Instruction& in) {
    return in.opcode == Opcode::special && in.form_as<SpecialRegister>() == SpecialRegister::grid_workspace_low;
  };
  if (std::ranges::none_of(code.instructions, asks)) return 0;
  constexpr std::array<std::uint32_t, 2> fresh = {8, 0};  // its size, and the barrier
  ModuleVariable workspace;
  workspace.name = "grid workspace";
  workspace.bytes = sizeof(fresh);
  STITCH_ASSIGN(const auto buffers, place_variables(code.module, std::span(&workspace, 1), memory));
  STITCH_TRY(memory.write(buffers.front().address, std::as_bytes(std::span(fresh))));
  return buffers.front().address;
}

/// Places the kernel's variables in memory and fills the rows that hold their addresses.
Status bind_variables(const Code& code, Memory& memory, std::byte* constants) {
  STITCH_ASSIGN(const std::vector<Buffer> buffers, place_variables(code.module, code.variables, memory));
  for (const AddressConstant& constant : code.address_constants) {
    const std::uint64_t value = buffers[constant.variable].address + constant.addend;
    for (std::size_t lane = 0; lane < 32; ++lane) std::memcpy(constants + constant.offset + lane * 8, &value, 8);
  }
  return {};
}

/// In a cluster the addresses of a block's own shared memory carry its rank, as on hardware (PTX ISA, "State spaces",
/// .shared: within the window of the cluster), so that code that takes them for offsets is seen to fail.
Status fill_constants(LaunchContext& context) {
  const Code& code = *context.code;
  const bool ranked = context.config.cluster.count() > 1 && !code.shared_constants.empty();
  const std::size_t ranks = ranked ? context.config.cluster.count() : 1;
  const std::size_t bytes = std::max<std::size_t>((code.constants.size() + 63) / 64 * 64, 64);
  context.constants.reserve(ranks * bytes);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::byte* const rows = context.constants.data() + rank * bytes;
    std::ranges::copy(code.constants, rows);
    STITCH_TRY(bind_variables(code, *context.memory, rows));
    if (!ranked) continue;
    for (const SharedConstant& constant : code.shared_constants) {
      const std::uint64_t value = constant.address + shared_tag(rank);
      const std::size_t size = constant.width == Width::b32 ? 4 : 8;
      for (std::size_t lane = 0; lane < 32; ++lane) std::memcpy(rows + constant.offset + lane * size, &value, size);
    }
  }
  context.constant_bytes = ranked ? bytes : 0;
  return {};
}

Status prepare(LaunchContext& context, const Program& program, const LaunchConfig& config,
               std::span<const std::byte> parameters, Memory& memory, const LaunchOptions& options) {
  const Code& code = program.code();
  const std::uint32_t shared_bytes = code.dynamic_shared_offset + config.dynamic_shared_bytes;
  STITCH_TRY(check_shape(code, config,
                         std::max(code.static_shared_bytes, config.dynamic_shared_bytes == 0 ? 0 : shared_bytes)));
  if (parameters.size() != code.parameter_bytes) {
    return make_error(ErrorKind::invalid_argument, "kernel {} takes {} bytes of parameters, not {}", code.name,
                      code.parameter_bytes, parameters.size());
  }
  STITCH_ASSIGN(context.blocks, choose_blocks(config, options.blocks));
  context.code = &code;
  context.config = config;
  context.memory = &memory;
  context.checks = options.checks;
  context.parameters.assign(parameters.begin(), parameters.end());
  for (const LaneOp& op : lane_ops(options.isa)) context.lane_functions.push_back(op.function);
  STITCH_TRY(fill_constants(context));
  if (config.cooperative) {
    STITCH_ASSIGN(context.grid_workspace, place_grid_workspace(code, memory));
  }
  context.wait_for_host = options.wait_for_host;
  context.early = options.early;
  context.generation = memory.begin_launch();
  context.blocks_per_unit = config.cluster.count();
  if (options.shuffle_seed != 0) shuffle_units(context.blocks, context.blocks_per_unit, options.shuffle_seed);
  context.threads_per_block = config.block.count();
  context.warps_per_block = (context.threads_per_block + 31) / 32;
  context.shared_bytes = shared_bytes;
  context.times_matter = code.synchronises_blocks;
  context.instruction_budget = options.instruction_budget;
  return {};
}

}  // namespace

Result<std::vector<Buffer>> place_variables(const Hash128& module, std::span<const ModuleVariable> variables,
                                            Memory& memory) {
  std::vector<Buffer> buffers;
  std::vector<bool> fresh;
  for (const ModuleVariable& variable : variables) {
    const Buffer* known = memory.module_variable(module, variable.name);
    fresh.push_back(known == nullptr);
    if (known != nullptr) {
      buffers.push_back(*known);
      continue;
    }
    STITCH_ASSIGN(const Buffer buffer, memory.allocate(variable.name, variable.bytes, Contents::zero()));
    memory.keep_module_variable(module, variable.name, buffer);
    buffers.push_back(buffer);
  }
  for (std::size_t i = 0; i < variables.size(); ++i) {
    if (!fresh[i]) continue;
    STITCH_TRY(memory.write(buffers[i].address, std::as_bytes(std::span(variables[i].initial))));
    for (const ModuleVariable::Relocation& relocation : variables[i].relocations) {
      const std::uint64_t value = buffers[relocation.variable].address + relocation.addend;
      STITCH_TRY(memory.write(buffers[i].address + relocation.at, std::as_bytes(std::span(&value, 1))));
    }
  }
  return buffers;
}

ParameterBlock& ParameterBlock::add_bytes(std::span<const std::byte> value, std::size_t alignment) {
  bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment);
  bytes_.insert(bytes_.end(), value.begin(), value.end());
  return *this;
}

Result<LaunchReport> launch(const Program& program, const LaunchConfig& config, std::span<const std::byte> parameters,
                            Memory& memory, const LaunchOptions& options) {
  LaunchContext context;
  STITCH_TRY(prepare(context, program, config, parameters, memory, options));
  int threads = options.host_threads;
  if (threads <= 0) threads = std::min(tbb::this_task_arena::max_concurrency(), usable_processors());
  threads = std::min<std::uint64_t>(threads, context.blocks.size() / context.blocks_per_unit);
  context.single_threaded = threads == 1;

  Scheduler scheduler(context);
  const std::stop_callback stopper(options.stop, [&context] { context.stop = true; });
  std::vector<std::unique_ptr<Interpreter>> interpreters;
  for (int i = 0; i < threads; ++i) interpreters.push_back(std::make_unique<Interpreter>(context));
  if (threads == 1) {
    scheduler.work(*interpreters[0]);
  } else {
    scheduler.hand_over();
    tbb::task_arena arena(threads);
    arena.execute([&] {
      tbb::parallel_for(
          0, threads, [&](int i) { scheduler.work(*interpreters[i]); }, tbb::simple_partitioner());
    });
    scheduler.hand_over();
  }
  if (context.out_of_budget) {
    return make_error(ErrorKind::timeout, "kernel {} did not end within {} warp instructions", program.name(),
                      options.instruction_budget);
  }
  if (const char* refused = context.refused; refused != nullptr) {
    return make_error(ErrorKind::unsupported, "kernel {} came to {}", program.name(), refused);
  }
  if (options.stop.stop_requested() && !scheduler.completed()) {
    return make_error(ErrorKind::cancelled, "kernel {} was stopped", program.name());
  }

  LaunchReport report;
  report.completed = scheduler.completed();
  Reporter all(program.code(), options.checks);
  std::map<std::uint32_t, BufferTraffic> traffic;
  for (const auto& interpreter : interpreters) {
    report.counters += interpreter->counters();
    all.merge(interpreter->reporter());
    for (const auto& [id, part] : interpreter->traffic()) {
      BufferTraffic& sum = traffic[id];
      sum.buffer = id;
      sum.name = part.name;
      sum.loads += part.loads;
      sum.stores += part.stores;
    }
  }
  for (auto& [id, part] : traffic) report.buffers.push_back(std::move(part));
  report.findings = all.findings(options.max_findings, report.total_findings);
  return report;
}

}  // namespace stitch::emulator
