#include "lab/spaces/pipeline_model.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/device_spec.h"

namespace stitch::lab {
namespace {

constexpr std::int64_t warp = 32, wavefront = 128;
constexpr double schedulers = 4;  ///< warp instructions that an SM issues in a clock

std::int64_t parts(std::int64_t all, std::int64_t size) { return (all + size - 1) / size; }

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

/// Kernel Tuner's convolution of 4096 × 4096 by a constant window in f32: a block of threads has a tile of results for
/// each of them; with use_shmem its input goes through shared memory at once.
BlockCost convolution_block(const Configuration& c, const DeviceSpec& device) {
  constexpr std::int64_t extent = 4096, size = 4;
  const auto at = [&](const char* name) { return c.find(name)->second; };
  const std::int64_t results = at("tile_size_x") * at("tile_size_y");
  const std::int64_t taps = at("filter_width") * at("filter_height");
  const std::int64_t across = at("block_size_x") * at("tile_size_x"), down = at("block_size_y") * at("tile_size_y");
  const bool shared = at("use_shmem") != 0, padded = shared && at("use_padding") != 0 && at("block_size_x") % warp != 0;
  const std::int64_t width = across + at("filter_width") - 1, height = down + at("filter_height") - 1;
  const std::int64_t pitch = width + (padded ? 1 : 0);
  BlockCost block;
  block.threads = at("block_size_x") * at("block_size_y");
  block.blocks = parts(extent, across) * parts(extent, down);
  block.registers = 24 + 2 * results;
  block.shared_bytes = shared ? size * pitch * height : 0;
  const auto warps = static_cast<double>(parts(block.threads, warp));
  // A warp over two rows of threads reads two rows of the input: halves of the banks, where these lie so.
  const bool whole = at("block_size_x") >= warp || padded || pitch % warp == warp / 2;
  const double products = warps * static_cast<double>(taps * results);
  const double loads = products * (whole ? 1 : 2);
  const double copies =
      shared ? 4 * warps * static_cast<double>(parts(width, at("block_size_x")) * parts(height, at("block_size_y")))
             : 0;
  const double issued = 2 * products + warps * static_cast<double>(taps) + copies;
  block.use = std::max({products * warp / device.fp32_lanes_per_sm, loads, issued / schedulers});
  block.load = shared ? device.dram_latency * static_cast<double>(parts(width * height, 4 * block.threads)) : 0;
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
        "filter_height"},
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
