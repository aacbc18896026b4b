#include "base/device_sources.h"

#include <array>

namespace stitch {
namespace {

constexpr std::string_view specifications =
    "CUDA C++ programming guide, technical specifications per compute capability";
constexpr std::string_view throughput = "CUDA C++ programming guide, throughput of native arithmetic instructions";
constexpr std::string_view volta = "arXiv 1804.06826, tables 3.1 and 3.4";
constexpr std::string_view turing = "arXiv 1903.07486";
constexpr std::string_view ampere_to_hopper = "arXiv 2402.13499, table IV";
constexpr std::string_view guess = "guess";
constexpr std::string_view published = "fitted to times that Liger-Kernel published (bench/measured)";
constexpr std::string_view like_a100 = "guess: as for the a100";
constexpr std::string_view like_h100 = "guess: as for the h100";
constexpr std::string_view like_b200 = "guess: as for the b200";
constexpr std::string_view like_rtx4090 = "guess: as for the rtx4090";
constexpr std::string_view like_rtx5090 = "guess: as for the rtx5090";
constexpr std::string_view by_sms = "guess: by SMs of the like entry's";
constexpr std::string_view geforce_blackwell = "guess: after the RTX 5080 in arXiv 2507.10789";
constexpr std::string_view a100_sheet = "NVIDIA A100 data sheet";
constexpr std::string_view a100_paper = "NVIDIA A100 architecture white paper";
constexpr std::string_view h100_paper = "NVIDIA H100 architecture white paper";
constexpr std::string_view ada_paper = "NVIDIA Ada GPU architecture white paper";
constexpr std::string_view blackwell_brief = "NVIDIA Blackwell architecture technical brief";

constexpr std::string_view by_clock = "guess: the clock above is kept";
constexpr std::string_view by_power = "guess: 72 W of 58 SMs, 350 W of 142 do not keep the boost clock";
constexpr std::string_view all_of = "NVIDIA PTX ISA: mma.sync is all there is";
constexpr std::string_view calibrated = "measured by stitch calibrate on an H100 SXM (bench/results/gpu)";
constexpr std::string_view by_published = "fitted to products that others timed (bench/contractions/measured.csv)";
constexpr std::string_view by_products = "fitted to products measured on an H100 SXM (bench/results/gpu)";

/// What differs between entries of one kind; the rest follows from the compute capability.
struct Origin {
  std::string_view device;
  std::string_view sms, clock, fp64_lanes, bandwidth, copy, l2_bandwidth, l2_size;
  std::string_view latencies;  ///< of shared memory, L2 and device memory
  std::string_view cluster;    ///< latency of another block's shared memory
  std::string_view launch, grid_barrier, block_barrier;
  std::string_view tensor;            ///< rates of tensor cores: from dense FLOPS, SMs and clock
  std::string_view mma = all_of;      ///< share of them that mma.sync reaches
  std::string_view power = by_clock;  ///< share of them that power allows
};

constexpr std::string_view none = "compute capability below 9.0 has no clusters (CUDA C++ programming guide)";

constexpr std::array<Origin, 19> origins = {{
    {"v100", "NVIDIA V100 data sheet", "NVIDIA V100 data sheet", throughput, "NVIDIA V100 data sheet", guess, volta,
     "NVIDIA V100 architecture white paper", volta, none, guess, "AStitch (ASPLOS'22): 2.5 to 2.7 us", guess,
     "NVIDIA V100 data sheet"},
    {"t4", "NVIDIA T4 data sheet", "NVIDIA T4 data sheet", throughput, "NVIDIA T4 data sheet", turing, turing, turing,
     turing, none, guess, guess, guess, "NVIDIA T4 data sheet"},
    {"a100", a100_paper, a100_paper, throughput, a100_sheet, guess, guess, a100_paper, ampere_to_hopper, none, guess,
     guess, guess, a100_sheet},
    {"a100-80gb", a100_paper, a100_paper, throughput, a100_sheet, published, like_a100, a100_paper, ampere_to_hopper,
     none, like_a100, like_a100, like_a100, a100_sheet},
    {"a100-pcie", a100_paper, a100_paper, throughput, a100_sheet, "guess: as for the a100-80gb", like_a100, a100_paper,
     ampere_to_hopper, none, like_a100, like_a100, like_a100, a100_sheet},
    {"rtx3090", "NVIDIA Ampere GA102 GPU architecture white paper", "NVIDIA Ampere GA102 GPU architecture white paper",
     throughput, "NVIDIA Ampere GA102 GPU architecture white paper", published, guess,
     "NVIDIA Ampere GA102 GPU architecture white paper", like_a100, none, like_a100, like_a100, like_a100,
     "NVIDIA Ampere GA102 GPU architecture white paper"},
    {"l4", "NVIDIA L4 data sheet", "NVIDIA L4 data sheet", throughput, "NVIDIA L4 data sheet", guess, guess,
     "NVIDIA L4 data sheet", "arXiv 2402.13499, table IV (RTX 4090, same SM)", none, guess, guess, guess,
     "NVIDIA L4 data sheet", all_of, by_power},
    {"rtx4090", ada_paper, ada_paper, throughput, ada_paper, guess, guess, ada_paper, ampere_to_hopper, none, guess,
     guess, guess, ada_paper},
    {"l40s", "NVIDIA L40S data sheet", "deviceQuery of an L40S: 2520 MHz", throughput, "NVIDIA L40S data sheet",
     "guess: as for the l4", like_rtx4090, "deviceQuery of an L40S: 100663296 bytes",
     "arXiv 2402.13499, table IV (RTX 4090, same SM)", none, like_rtx4090, like_rtx4090, like_rtx4090,
     "NVIDIA L40S data sheet", all_of, by_power},
    {"h100", h100_paper, "nvidia-smi of an H100 SXM: 1980 MHz (stitch calibrate: 1995)", throughput,
     "NVIDIA H100 data sheet", published, by_products, h100_paper, calibrated, "arXiv 2501.12084", calibrated,
     calibrated, calibrated, "NVIDIA H100 data sheet", by_products, by_products},
    {"h200", "NVIDIA H200 data sheet", like_h100, throughput, "NVIDIA H200 data sheet", like_h100, like_h100, like_h100,
     like_h100, like_h100, like_h100, like_h100, like_h100, "NVIDIA H200 data sheet", like_h100, like_h100},
    {"h20", "as its driver reports: multi_processor_count=78", guess, "NVIDIA H20 data sheet: 1 TFLOPS",
     "NVIDIA H20 data sheet", like_h100, by_sms, guess, like_h100, like_h100, like_h100, like_h100, like_h100,
     "NVIDIA H20 data sheet: 148 TFLOPS of f16", "guess: a quarter of an H100's rate leaves none to wgmma"},
    {"h100-pcie", h100_paper, "deviceQuery of an H100 PCIe: 1755 MHz", throughput,
     "NVIDIA H100 data sheet; deviceQuery: 1593 MHz, 5120 bits", like_h100, by_sms, h100_paper,
     "arXiv 2402.13499, table IV (H100 PCIe)", "arXiv 2501.12084", like_h100, like_h100, like_h100,
     "NVIDIA H100 data sheet", like_h100, like_h100},
    {"h100-nvl", "NVIDIA H100 NVL product brief", "NVIDIA H100 NVL product brief", throughput,
     "NVIDIA H100 NVL product brief", like_h100, like_h100, guess, like_h100, like_h100, like_h100, like_h100,
     like_h100, "NVIDIA H100 NVL product brief", like_h100, like_h100},
    {"b200", "as its driver reports: multi_processor_count=148", guess, throughput, "NVIDIA DGX B200 data sheet", guess,
     guess, "NVIDIA Blackwell tuning guide: 126 MB", like_h100, like_h100, like_h100, like_h100, like_h100,
     "NVIDIA DGX B200 data sheet", "guess: the rate of an A100's SM", by_published},
    {"gb200", "as its driver reports: multi_processor_count=152", like_b200, throughput, blackwell_brief, like_b200,
     like_b200, like_b200, like_b200, like_b200, like_b200, like_b200, like_b200, like_b200, like_b200, like_b200},
    {"b300", like_b200, like_b200, "NVIDIA DGX B300 data sheet (FP64 rate)", "NVIDIA DGX B300 data sheet", like_b200,
     like_b200, like_b200, like_b200, like_b200, like_b200, like_b200, like_b200,
     "NVIDIA DGX B300 data sheet; s8: guess", like_b200, like_b200},
    {"rtx5090", "NVIDIA RTX Blackwell GPU architecture white paper", "deviceQuery of an RTX 5090: 2407 MHz", throughput,
     "NVIDIA RTX Blackwell GPU architecture white paper", like_rtx4090, by_sms,
     "deviceQuery of an RTX 5090: 100663296 bytes", geforce_blackwell, like_h100, like_rtx4090, like_rtx4090,
     like_rtx4090, "NVIDIA RTX Blackwell GPU architecture white paper"},
    {"rtx-pro-6000", "NVIDIA RTX PRO Blackwell GPU architecture white paper",
     "NVIDIA RTX PRO Blackwell GPU architecture white paper", throughput,
     "NVIDIA RTX PRO Blackwell GPU architecture white paper", like_rtx5090, by_sms,
     "NVIDIA RTX PRO Blackwell GPU architecture white paper", geforce_blackwell, like_h100, like_rtx5090, like_rtx5090,
     like_rtx5090, "NVIDIA RTX PRO Blackwell GPU architecture white paper"},
}};

std::vector<FigureSource> listed(const Origin& origin) {
  return {{"compute_major", specifications},
          {"compute_minor", specifications},
          {"sm_count", origin.sms},
          {"clock_hz", origin.clock},
          {"fp32_lanes_per_sm", throughput},
          {"int32_lanes_per_sm", throughput},
          {"fp64_lanes_per_sm", origin.fp64_lanes},
          {"special_lanes_per_sm", throughput},
          {"tensor", origin.tensor},
          {"tensor.synchronous_share", origin.mma},
          {"tensor.sustained_share", origin.power},
          {"dram_bandwidth", origin.bandwidth},
          {"copy_fraction", origin.copy},
          {"l2_bandwidth", origin.l2_bandwidth},
          {"l2_bytes", origin.l2_size},
          {"shared_bytes_per_clock", "CUDA C++ programming guide: 32 banks of 32 bits a clock"},
          {"shared_per_sm", specifications},
          {"shared_per_block", specifications},
          {"shared_reserved_per_block", specifications},
          {"registers_per_sm", specifications},
          {"threads_per_sm", specifications},
          {"blocks_per_sm", specifications},
          {"max_threads_per_block", specifications},
          {"max_registers_per_thread", specifications},
          {"max_cluster_blocks", "CUDA C++ programming guide, thread block clusters: 8 is portable"},
          {"shared_latency", origin.latencies},
          {"cluster_latency", origin.cluster},
          {"l2_latency", origin.latencies},
          {"dram_latency", origin.latencies},
          {"launch_us", origin.launch},
          {"grid_barrier_us", origin.grid_barrier},
          {"block_barrier_cycles", origin.block_barrier}};
}

}  // namespace

Result<std::vector<FigureSource>> figure_sources(std::string_view device) {
  for (const Origin& origin : origins) {
    if (origin.device == device) return listed(origin);
  }
  return make_error(ErrorKind::invalid_argument, "'{}' is no entry of the device table", device);
}

}  // namespace stitch
