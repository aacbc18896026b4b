// How fast the emulated device is, with every check on: lane-instructions per second and host thread for kernels of
// the kinds that stitch generates, what a block costs apart from its instructions, and host access to large buffers.
// The kernels are those of tests/data/emulator.
//
//   emulator_benchmark [--benchmark_filter=REGEX]
//
// `lane_instructions` is a rate: lanes that executed an instruction, summed over all instructions, per second.
#include <benchmark/benchmark.h>

#include <fstream>
#include <iostream>
#include <sstream>

#include "emulator/run/launch.h"

namespace stitch::emulator {
namespace {

template <class T>
T must(Result<T> result) {
  if (result) return *std::move(result);
  std::cerr << result.error().message << "\n";
  std::abort();
}

Program load(const std::string& file, const std::string& kernel) {
  std::ifstream stream(STITCH_SOURCE_DIR "/tests/data/emulator/" + file + ".ptx");
  std::ostringstream text;
  text << stream.rdbuf();
  return must(Program::load(text.str(), kernel));
}

Buffer floats(Memory& memory, const char* name, std::uint64_t count) {
  return must(memory.allocate(name, count * 4, Contents::lazy([](std::uint64_t offset, std::span<std::byte> page) {
                                for (std::size_t i = 0; i + 4 <= page.size(); i += 4) {
                                  const float value = static_cast<float>((offset + i) / 4 % 1000) / 1000.0F;
                                  std::memcpy(page.data() + i, &value, 4);
                                }
                              })));
}

Buffer output(Memory& memory, const char* name, std::uint64_t bytes) {
  return must(memory.allocate(name, bytes, Contents::uninitialised()));
}

LaunchConfig shape(std::uint32_t grid, std::uint32_t block, std::uint32_t dynamic_shared_bytes = 0) {
  LaunchConfig config;
  config.grid.x = grid;
  config.block.x = block;
  config.dynamic_shared_bytes = dynamic_shared_bytes;
  return config;
}

void repeat(benchmark::State& state, const Program& program, const LaunchConfig& config,
            const ParameterBlock& parameters, Memory& memory, LaunchOptions options = {}) {
  options.host_threads = static_cast<int>(state.range(0));
  std::uint64_t lanes = 0;
  std::uint64_t blocks = 0;
  for (auto _ : state) {
    const LaunchReport report = must(launch(program, config, parameters.bytes(), memory, options));
    if (!report.clean()) {
      state.SkipWithError(report.findings.empty() ? "not completed" : to_text(report.findings.front()).c_str());
      return;
    }
    lanes += report.counters.total().lanes;
    blocks += report.counters.blocks;
  }
  state.counters["lane_instructions"] =
      benchmark::Counter(static_cast<double>(lanes), benchmark::Counter::kIsRate, benchmark::Counter::kIs1000);
  state.counters["blocks"] = benchmark::Counter(static_cast<double>(blocks), benchmark::Counter::kIsRate);
}

// gelu(x + bias) on float4: loads and stores of 16 bytes a lane, about 50 instructions each.
void element_wise_f32(benchmark::State& state) {
  Memory memory;
  constexpr int vectors = 1 << 18;
  ParameterBlock parameters;
  parameters.add(output(memory, "y", vectors * 16)).add(floats(memory, "x", vectors * 4));
  parameters.add(floats(memory, "b", 1024)).add(vectors).add(256);
  repeat(state, load("elementwise", "gelu_bias"), shape(vectors / 256, 256), parameters, memory);
}
BENCHMARK(element_wise_f32)->Arg(1)->Arg(2)->ArgName("host_threads")->MeasureProcessCPUTime();

// y = scale * x on eight bf16 values a lane.
void element_wise_bf16(benchmark::State& state) {
  Memory memory;
  constexpr int vectors = 1 << 17;
  ParameterBlock parameters;
  parameters.add(output(memory, "y", vectors * 16)).add(floats(memory, "x", vectors * 4)).add(2.0F).add(vectors);
  repeat(state, load("elementwise", "scale_bf16"), shape(vectors / 256, 256), parameters, memory);
}
BENCHMARK(element_wise_bf16)->Arg(1)->ArgName("host_threads")->MeasureProcessCPUTime();

// A sum of 8-bit values: the shortest kernel, one byte a lane.
void element_wise_s8(benchmark::State& state) {
  Memory memory;
  constexpr int elements = 1 << 19;
  ParameterBlock parameters;
  parameters.add(output(memory, "y", elements)).add(floats(memory, "x", elements / 4));
  parameters.add(floats(memory, "z", elements / 4)).add(elements);
  repeat(state, load("integer", "k_add_s8"), shape(elements / 256, 256), parameters, memory);
}
BENCHMARK(element_wise_s8)->Arg(1)->ArgName("host_threads")->MeasureProcessCPUTime();

// Softmax, a warp a row of 1024, three passes over global memory: shuffles and scalar accesses.
void softmax_by_warps(benchmark::State& state) {
  Memory memory;
  constexpr int rows = 1024, columns = 1024;
  ParameterBlock parameters;
  parameters.add(output(memory, "y", rows * columns * 4)).add(floats(memory, "x", rows * columns));
  parameters.add(rows).add(columns);
  repeat(state, load("reductions", "softmax_warp"), shape(rows / 8, 256), parameters, memory);
}
BENCHMARK(softmax_by_warps)->Arg(1)->Arg(2)->ArgName("host_threads")->MeasureProcessCPUTime();

// Layer norm, a block a row of 1024 that stays in shared memory: shared accesses and barriers.
void layer_norm_in_shared_memory(benchmark::State& state) {
  Memory memory;
  constexpr int rows = 1024, columns = 1024;
  ParameterBlock parameters;
  parameters.add(output(memory, "y", rows * columns * 4)).add(floats(memory, "x", rows * columns));
  parameters.add(floats(memory, "gamma", columns)).add(floats(memory, "beta", columns)).add(columns).add(1e-5F);
  repeat(state, load("reductions", "layer_norm"), shape(rows, 256, columns * 4), parameters, memory);
}
BENCHMARK(layer_norm_in_shared_memory)->Arg(1)->Arg(2)->ArgName("host_threads")->MeasureProcessCPUTime();

// A transpose through padded shared memory.
void transpose(benchmark::State& state) {
  Memory memory;
  constexpr int rows = 1024, columns = 1024;
  ParameterBlock parameters;
  parameters.add(output(memory, "y", rows * columns * 4)).add(floats(memory, "x", rows * columns));
  parameters.add(rows).add(columns);
  LaunchConfig config = shape(columns / 32, 32);
  config.grid.y = rows / 32;
  config.block.y = 8;
  repeat(state, load("elementwise", "transpose"), config, parameters, memory);
}
BENCHMARK(transpose)->Arg(1)->ArgName("host_threads")->MeasureProcessCPUTime();

// 100,000 blocks of one warp that do almost nothing: `blocks` is what a block costs.
void many_small_blocks(benchmark::State& state) {
  Memory memory;
  ParameterBlock parameters;
  constexpr int blocks = 100'000;
  parameters.add(output(memory, "y", blocks * 32)).add(floats(memory, "x", blocks * 8));
  parameters.add(floats(memory, "z", blocks * 8)).add(blocks * 32);
  repeat(state, load("integer", "k_add_s8"), shape(blocks, 32), parameters, memory);
}
BENCHMARK(many_small_blocks)->Arg(1)->ArgName("host_threads")->MeasureProcessCPUTime();

// 300 blocks with a barrier of the grid between two steps: every block is suspended and resumed.
void grid_barriers(benchmark::State& state) {
  Memory memory;
  constexpr int blocks = 300;
  const Program program = load("device", "grid_share");
  ParameterBlock parameters;
  parameters.add(output(memory, "y", blocks * 512)).add(floats(memory, "x", blocks * 128));
  parameters.add(output(memory, "partials", blocks * 4));
  parameters.add(must(memory.allocate("counter", 8, Contents::zero())));
  repeat(state, program, shape(blocks, 128), parameters, memory);
}
BENCHMARK(grid_barriers)->Arg(1)->Arg(2)->ArgName("host_threads")->MeasureProcessCPUTime();

// Eight sampled blocks of a grid over two buffers of 4 GiB, and where they wrote.
void sampled_blocks_of_large_buffers(benchmark::State& state) {
  constexpr std::uint64_t bytes = std::uint64_t{4} << 30;
  constexpr int vectors = bytes / 16;
  const Program program = load("elementwise", "gelu_bias");
  std::vector<std::uint64_t> blocks;
  for (std::uint64_t i = 0; i < 8; ++i) blocks.push_back(i * (vectors / 256 - 1) / 7);
  for (auto _ : state) {
    Memory memory;
    const Buffer y = output(memory, "y", bytes);
    ParameterBlock parameters;
    parameters.add(y).add(floats(memory, "x", bytes / 4)).add(floats(memory, "b", 1024)).add(vectors).add(256);
    LaunchOptions options;
    options.blocks = blocks;
    options.host_threads = 1;
    const LaunchReport report = must(launch(program, shape(vectors / 256, 256), parameters.bytes(), memory, options));
    if (!report.clean() || memory.written_ranges(y).size() != blocks.size()) state.SkipWithError("wrong");
  }
}
BENCHMARK(sampled_blocks_of_large_buffers)->Unit(benchmark::kMicrosecond);

// Parsing and decoding one kernel out of a module of 5,000 lines.
void load_program(benchmark::State& state) {
  std::ifstream stream(STITCH_SOURCE_DIR "/tests/data/emulator/device.ptx");
  std::ostringstream text;
  text << stream.rdbuf();
  for (auto _ : state) benchmark::DoNotOptimize(must(Program::load(text.str(), "power_f64")));
}
BENCHMARK(load_program)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace stitch::emulator

BENCHMARK_MAIN();
