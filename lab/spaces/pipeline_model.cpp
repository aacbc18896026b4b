#include "lab/spaces/pipeline_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/device_spec.h"

namespace stitch::lab {
namespace {

constexpr std::int64_t warp = 32, wavefront = 128;
constexpr double schedulers = 4;            ///< warp instructions that an SM issues in a clock
constexpr double multiply_add_latency = 4;  ///< clocks; arXiv 2402.13499, table V (Volta to Hopper)

std::int64_t parts(std::int64_t all, std::int64_t size) { return (all + size - 1) / size; }

/// Threads whose 32-bit loads an SM begins in a clock: the load/store units in the figures of an SM of NVIDIA's white
/// papers of GA100 (8 in each of four parts) and of TU102 and GA102 (4).
double load_store_lanes(const DeviceSpec& device) {
  return device.compute_major == 8 && device.compute_minor == 0 ? 32 : 16;
}

using Configuration = std::map<std::string, std::int64_t, std::less<>>;

Configuration configuration_of(const search::CandidateSpace& space, std::size_t candidate) {
  Configuration values;
  const search::CandidateSpace::Row row = space.row(candidate);
  for (std::size_t p = 0; p < row.size(); ++p) {
    const search::Parameter& parameter = space.parameters()[p];
    const auto* number = std::get_if<double>(&parameter.values[row[p]]);
    values.emplace(parameter.name, number == nullptr ? 0 : std::llround(*number));
  }
  return values;
}

/// The entry of the table for a recorded GPU, or the nearest one with the SMs, clock and bandwidth of its data sheet.
Result<DeviceSpec> spec_of(const std::string& name) {
  const auto varied = [](const char* entry, int sms, double mhz, double gbs) {
    DeviceSpec device = *find_device(entry);
    device.l2_bandwidth *= sms * mhz * 1e6 / (device.sm_count * device.clock_hz);
    device.sm_count = sms;
    device.clock_hz = mhz * 1e6;
    device.dram_bandwidth = gbs * 1e9;
    return device;
  };
  if (name.find("RTX 3090") != std::string::npos) return *find_device("rtx3090");
  if (name.find("A100") != std::string::npos) return *find_device("a100");
  if (name.find("RTX A6000") != std::string::npos) return varied("rtx3090", 84, 1800, 768);
  if (name.find("RTX A4000") != std::string::npos) return varied("rtx3090", 48, 1560, 448);
  if (name.find("RTX 2080 Ti") != std::string::npos) return varied("t4", 68, 1545, 616);
  return make_error(ErrorKind::unsupported, "the pipeline model has no figures of '{}'", name);
}

/// A block as the model sees it; clocks of an SM that it has to itself.
struct BlockCost {
  std::int64_t blocks = 1, turns = 1;
  std::int64_t threads = warp, registers = 32, shared_bytes = 0;
  double use = 0;         ///< of a turn, by throughput
  double load = 0;        ///< of a turn's loads, their latency
  double load_bytes = 0;  ///< of a turn
  double end = 0;         ///< behind the loop
};

std::int64_t blocks_of_sm(const BlockCost& block, const DeviceSpec& device) {
  const std::int64_t registers = parts(std::min<std::int64_t>(block.registers, 255), 8) * 8;
  std::int64_t most = std::min<std::int64_t>(device.blocks_per_sm, device.threads_per_sm / block.threads);
  most = std::min(most, device.registers_per_sm / (registers * parts(block.threads, warp) * warp));
  if (block.shared_bytes > 0)
    most = std::min(most, device.shared_per_sm / (block.shared_bytes + device.shared_reserved_per_block));
  return std::max<std::int64_t>(1, most);
}

/// T_kernel = T_tb · ⌈N_tb ÷ (N_SM · tb per SM)⌉; a turn's loads cost nothing where the other blocks of the SM multiply
/// for as long.
double pipeline_clocks(const BlockCost& block, const DeviceSpec& device) {
  const std::int64_t together = blocks_of_sm(block, device);
  const double bytes_per_clock = device.l2_bandwidth / device.clock_hz / device.sm_count;
  const auto others = static_cast<double>(together - 1), all = static_cast<double>(together);
  const double use = std::max(block.use, block.load_bytes / bytes_per_clock);
  const double load = block.load + block.load_bytes / bytes_per_clock * all;
  const double turn = load <= others * use ? all * use : load + use;
  const double whole = device.dram_latency + static_cast<double>(block.turns) * turn + block.end * all;
  return whole * static_cast<double>(parts(block.blocks, device.sm_count * together));
}

/// CLBlast's Xgemm of 4096³ in f32: a block has MWG × NWG results, a turn KWG of the depth; threads MDIMC × NDIMC;
/// vectors of VWM and VWN elements; SA and SB, whether an operand goes through shared memory.
BlockCost gemm_block(const Configuration& c, const DeviceSpec& device) {
  constexpr std::int64_t extent = 4096, size = 4;
  const auto at = [&](const char* name) { return c.find(name)->second; };
  const std::int64_t rows = at("MWG") / at("MDIMC"), columns = at("NWG") / at("NDIMC"), depth = at("KWG");
  BlockCost block;
  block.threads = at("MDIMC") * at("NDIMC");
  block.blocks = extent / at("MWG") * (extent / at("NWG"));
  block.turns = extent / depth;
  block.registers = rows * columns + rows + columns + 32;
  block.shared_bytes = size * depth * (at("SA") * at("MWG") + at("SB") * at("NWG"));
  const auto warps = static_cast<double>(parts(block.threads, warp));
  const std::int64_t across = std::min(warp, at("MDIMC")), down = warp / across;
  const std::int64_t left = parts(rows, at("VWM")), right = parts(columns, at("VWN"));
  const auto wavefronts = [&](std::int64_t loads, std::int64_t lanes, std::int64_t vector) {
    return static_cast<double>(loads * std::max(wavefront, lanes * vector * size)) / wavefront;
  };
  const double steps = warps * static_cast<double>(depth);
  const double loads = steps * (wavefronts(left, across, at("VWM")) + wavefronts(right, down, at("VWN")));
  const double products = steps * static_cast<double>(rows * columns);
  // Addresses of what is not in shared memory; copies to it are loaded, stored and addressed.
  const double addresses = steps * 2 * static_cast<double>((at("SA") != 0 ? 0 : left) + (at("SB") != 0 ? 0 : right));
  const auto copies = [&](const char* shared, const char* edge, const char* vector) {
    return at(shared) == 0 ? 0.0 : 6 * warps * static_cast<double>(parts(at(edge) * depth, block.threads * at(vector)));
  };
  const double issued = products + steps * static_cast<double>(left + right) + addresses + copies("SA", "MWG", "VWM") +
                        copies("SB", "NWG", "VWN");
  block.use = std::max({products * warp / device.fp32_lanes_per_sm, loads, issued / schedulers});
  block.load = block.shared_bytes > 0 ? device.dram_latency : 0;
  block.load_bytes = static_cast<double>(size * depth * (at("MWG") + at("NWG")));
  block.end = warps * static_cast<double>(rows * columns);
  return block;
}

/// Wavefronts of a warp's read of shared memory in rows of `pitch` words by threads of a block `across` wide: as many
/// as words that differ lie in one of the 32 banks, in the mean over the warps of `threads`.
double wavefronts_of_rows(std::int64_t threads, std::int64_t across, std::int64_t pitch) {
  double sum = 0;
  for (std::int64_t first = 0; first < threads; first += warp) {
    std::array<std::int64_t, warp> words{};
    for (std::int64_t thread = first; thread < std::min(first + warp, threads); ++thread) {
      ++words[(thread / across * pitch + thread % across) % warp];
    }
    sum += static_cast<double>(*std::ranges::max_element(words));
  }
  return sum / static_cast<double>(parts(threads, warp));
}

/// Kernel Tuner's convolution of 4096 × 4096 by a constant window in f32: a block of threads has a tile of results for
/// each of them; with use_shmem its input goes through shared memory at once. A thread's results lie a block apart, and
/// the loops over window and tile are unrolled: a row of the input that several of a thread's results need is read
/// once, where the compiler sees that it is the same (not behind a guard against the image's edge, which the reads have
/// in place of the copies where there is no shared memory and the tiles do not divide the image). nvcc 13.0 for sm_80
/// orders the sums by rows then, in 32 registers; reads by read_only (__ldg) it leaves in the order of the source, so
/// that what is needed again stays in registers, and gives each an address of its own, of four instructions.
BlockCost convolution_block(const Configuration& c, const DeviceSpec& device) {
  constexpr std::int64_t extent = 4096, size = 4;
  const auto at = [&](const char* name) { return c.find(name)->second; };
  const std::int64_t results = at("tile_size_x") * at("tile_size_y");
  const std::int64_t columns = at("filter_width"), rows = at("filter_height");
  const std::int64_t across = at("block_size_x") * at("tile_size_x"), down = at("block_size_y") * at("tile_size_y");
  const bool shared = at("use_shmem") != 0, guarded = extent % across != 0 || extent % down != 0;
  const std::int64_t width = across + columns - 1, height = down + rows - 1;
  // Padding brings a row of threads to the banks behind those of the row above it.
  const bool padded = shared && at("use_padding") != 0 && at("block_size_x") % warp != 0;
  const std::int64_t behind = (width - at("block_size_x")) % warp;
  const std::int64_t pitch = width + (padded && behind != 0 ? warp - behind : 0);
  BlockCost block;
  block.threads = at("block_size_x") * at("block_size_y");
  block.blocks = parts(extent, across) * parts(extent, down);
  block.registers = 24 + 2 * results;
  block.shared_bytes = shared ? size * pitch * height : 0;
  const auto warps = static_cast<double>(parts(block.threads, warp));
  const bool reused = shared || !guarded, cached = !shared && at("read_only") != 0;
  const std::int64_t more = at("tile_size_y") - 1, apart = at("block_size_y");
  const std::int64_t read_rows = reused ? rows + more * std::min(rows, apart) : rows + more * rows;
  const std::int64_t kept =
      reused && cached ? more * std::clamp<std::int64_t>(rows - apart, 0, apart) * columns * at("tile_size_x") : 0;
  block.registers += kept;
  const double reads = warps * static_cast<double>(columns * at("tile_size_x") * read_rows);
  const double products = warps * static_cast<double>(columns * rows * results);
  const double copies =
      shared ? warps * static_cast<double>(parts(width, at("block_size_x")) * parts(height, at("block_size_y"))) : 0;
  const double clocks = static_cast<double>(warp) / load_store_lanes(device);
  const double of_a_read =
      std::max(clocks, wavefronts_of_rows(block.threads, at("block_size_x"), shared ? pitch : extent + columns - 1));
  // Beyond the registers what is read is stored and read once more.
  const double accesses = reads * (block.registers > device.max_registers_per_thread ? 3 : 1);
  const double issued = products + reads * ((reused ? 1 : 2) + (cached ? 4 : 0)) + 4 * copies;
  block.use = std::max(
      {products * warp / device.fp32_lanes_per_sm, accesses * of_a_read + 2 * clocks * copies, issued / schedulers});
  // A thread's loads on the way to shared memory are under way eight at a time; its sums are as many chains of
  // multiply-adds.
  const std::int64_t turns =
      shared ? parts(parts(width, at("block_size_x")) * parts(height, at("block_size_y")), 8) : 1;
  block.load = device.dram_latency * static_cast<double>(turns) +
               multiply_add_latency * static_cast<double>(columns * rows * std::max<std::int64_t>(1, results / 4));
  block.load_bytes = static_cast<double>(size * width * height);
  block.end = warps * static_cast<double>(results);
  return block;
}

struct KnownKernel {
  std::vector<std::string_view> parameters;
  BlockCost (*cost)(const Configuration& configuration, const DeviceSpec& device);
};

const std::vector<KnownKernel>& known_kernels() {
  static const std::vector<KnownKernel> known = {
      {{"MWG", "NWG", "KWG", "MDIMC", "NDIMC", "VWM", "VWN", "SA", "SB"}, gemm_block},
      {{"block_size_x", "block_size_y", "tile_size_x", "tile_size_y", "use_padding", "use_shmem", "filter_width",
        "filter_height", "read_only"},
       convolution_block}};
  return known;
}

bool has_all(const search::CandidateSpace& space, const std::vector<std::string_view>& names) {
  return std::ranges::all_of(names, [&](std::string_view name) {
    return std::ranges::find(space.parameters(), name, &search::Parameter::name) != space.parameters().end();
  });
}

}  // namespace

Result<search::TransferPrior> pipeline_prior(const RecordedSpace& recorded) {
  const auto known = std::ranges::find_if(
      known_kernels(), [&](const KnownKernel& each) { return has_all(recorded.space, each.parameters); });
  if (known == known_kernels().end())
    return make_error(ErrorKind::unsupported, "the pipeline model knows no kernel with the parameters of '{}'",
                      recorded.kernel);
  STITCH_ASSIGN(const DeviceSpec device, spec_of(recorded.device));
  std::vector<float> log_times;
  for (std::size_t i = 0; i < recorded.space.size(); ++i) {
    const BlockCost block = known->cost(configuration_of(recorded.space, i), device);
    log_times.push_back(static_cast<float>(std::log(pipeline_clocks(block, device) / device.clock_hz * 1e6)));
  }
  search::TransferPrior prior = search::carry_over(recorded.space, log_times, {});
  prior.doubtful = true;
  return prior;
}

}  // namespace stitch::lab
