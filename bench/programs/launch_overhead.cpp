// What libstitch takes of the host for a launch, beside the driver's own call: nanoseconds a kernel on a driver that
// does nothing with kernels but take them (the emulated one, STITCH_EMULATED_EXECUTE=0). Read the ratios.
//
//   build/release/bin/launch_overhead --benchmark_enable_random_interleaving=true --benchmark_repetitions=9
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "client/cuda_context.h"
#include "client/cuda_executor.h"
#include "client/stream_program.h"
#include "graph/builder.h"
#include "profiler/device/emulated_device.h"
#include "tuning/plans/tuner.h"
#include "tuning/programs/model_program.h"

namespace stitch::bench {
namespace {

using graph::Builder;
using graph::DType;
using graph::Value;

constexpr int layers = 24;

template <class T>
T must(Result<T> result) {
  if (result) return *std::move(result);
  std::fprintf(stderr, "launch_overhead: %s\n", result.error().message.c_str());
  std::exit(1);
}
void must(const Status& status) {
  if (status) return;
  std::fprintf(stderr, "launch_overhead: %s\n", status.error().message.c_str());
  std::exit(1);
}

/// Layers of a small transformer's feed-forward part: two products of ours and an exponential of each row less its
/// maximum.
graph::Graph feed_forward() {
  Builder b;
  constexpr std::int64_t rows = 64, width = 64;
  Value x = b.parameter(DType::f16, {rows, width}, "x");
  for (int layer = 0; layer < layers; ++layer) {
    const Value up = b.parameter(DType::f16, {width, 2 * width}), down = b.parameter(DType::f16, {2 * width, width});
    const auto product = [&](Value left, Value right) {
      return b.convert(b.dot(left, right, {{}, {}, {1}, {0}, DType::f32}), DType::f16);
    };
    const Value y = b.binary(graph::Op::add, x, product(b.unary(graph::Op::tanh, product(x, up)), down));
    const Value peak = b.broadcast(b.reduce(graph::ReduceKind::max, y, {1}), {rows, width}, {0});
    x = b.unary(graph::Op::exp, b.binary(graph::Op::subtract, y, peak));
  }
  return must(b.finish({x}));
}

/// A program of some seventy launches on the emulated driver, and one of its kernels by itself.
struct Setup {
  Setup() : executor(must(client::CudaExecutor::create(0, STITCH_EMULATED_DRIVER))), context(executor->context()) {
    static SystemClock clock;
    static RealFileSystem files;
    static profiler::EmulatedDevice device;
    tuning::TunerOptions options;
    options.products = tuning::ProductsBy::ours;
    const auto tuner = must(tuning::Tuner::create(options, device, nullptr, files, clock));
    import::Imported model;
    model.graph = feed_forward();
    api::Program made = must(tuning::make_program(model, *tuner, {.name = "feed forward"}));
    program = must(client::StreamProgram::open(made, *executor));
    const auto code = [&](const Sha256& hash) -> Result<std::string> {
      for (const api::ProgramArtifact& artifact : made.artifacts) {
        if (artifact.hash == hash) return artifact.bytes;
      }
      return make_error(ErrorKind::not_found, "no artifact {}", hash.hex());
    };
    for (const api::ProgramFragment& fragment : made.fragments) {
      if (!fragment.plan || fragment.plan->launches.size() != 1 || fragment.plan->launches[0].cooperative) continue;
      plan = must(executor->load(*fragment.plan, code));
      load_bare(fragment.plan->launches[0], must(code(fragment.plan->launches[0].ptx)));
      break;
    }
    if (!plan) must(Status(make_error(ErrorKind::unsupported, "no plan of the program is one launch")));
    for (const api::ProgramPort& port : program->inputs()) inputs.push_back(allocate(port.type.bytes()));
    for (const api::ProgramPort& port : program->outputs()) outputs.push_back(allocate(port.type.bytes()));
    for (const auto& type : plan->plan().parameters) from.push_back(allocate(type.bytes()));
    for (const auto& type : plan->plan().results) to.push_back(allocate(type.bytes()));
    must(driver().check(driver().create_stream(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate"));
    for (std::size_t i = 0; i < values.size(); ++i) pointers.push_back(&values[i]);
  }

  [[nodiscard]] const cuda::DriverApi& driver() const { return *context->driver; }
  CUdeviceptr allocate(std::int64_t bytes) {
    must(held.emplace_back(driver()).make(bytes));
    return held.back().address();
  }
  void load_bare(const api::KernelLaunch& launch, const std::string& ptx) {
    CUmodule module = nullptr;
    must(driver().check(driver().load_module(&module, ptx.c_str()), "cuModuleLoadData"));
    must(driver().check(driver().get_function(&function, module, launch.name.c_str()), "cuModuleGetFunction"));
    if (launch.shared_bytes > 0) {
      must(driver().check(
          driver().set_attribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, launch.shared_bytes),
          "cuFuncSetAttribute"));
    }
    config.gridDimX = launch.blocks;
    config.blockDimX = launch.threads;
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    config.sharedMemBytes = launch.shared_bytes;
    values.assign(launch.arguments.size(), 4096);
  }

  std::unique_ptr<client::CudaExecutor> executor;
  std::shared_ptr<const client::CudaContext> context;
  const client::CurrentContext current{*context};  // as a program that uses the CUDA runtime has it
  std::vector<client::DeviceMemory> held;
  std::unique_ptr<client::StreamProgram> program;
  std::vector<std::uint64_t> inputs, outputs, from, to;
  std::unique_ptr<client::LoadedPlan> plan;
  CUfunction function = nullptr;
  CUlaunchConfig config{};
  std::vector<std::uint64_t> values;
  std::vector<void*> pointers;
  CUstream stream = nullptr;
};

Setup& setup() {
  static auto* const made = new Setup;
  return *made;
}

/// Times `launch`, which enqueues `kernels` kernels; what was enqueued is worked off outside the time.
template <class Launch>
void time_launches(benchmark::State& state, std::int64_t kernels, const Launch& launch) {
  const std::int64_t at_once = std::max<std::int64_t>(1, 256 / kernels);
  for (auto _ : state) {
    for (std::int64_t i = 0; i < at_once; ++i) launch();
    state.PauseTiming();
    must(setup().driver().check(setup().driver().synchronize_stream(setup().stream), "cuStreamSynchronize"));
    state.ResumeTiming();
  }
  state.counters["ns_a_kernel"] = benchmark::Counter(static_cast<double>(state.iterations() * at_once * kernels) * 1e-9,
                                                     benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void driver_call(benchmark::State& state) {
  Setup& s = setup();
  s.config.hStream = s.stream;
  time_launches(state, 1, [&] {
    must(s.driver().check(s.driver().launch(&s.config, s.function, s.pointers.data(), nullptr), "cuLaunchKernelEx"));
  });
}

void plan_launch(benchmark::State& state) {
  Setup& s = setup();
  time_launches(state, 1, [&] { must(s.plan->launch(s.from, s.to, s.stream)); });
}

void program_launch(benchmark::State& state) {
  Setup& s = setup();
  time_launches(state, s.program->operations(), [&] { must(s.program->launch(s.inputs, s.outputs, s.stream)); });
}

BENCHMARK(driver_call)->UseRealTime();
BENCHMARK(plan_launch)->UseRealTime();
BENCHMARK(program_launch)->UseRealTime();

}  // namespace
}  // namespace stitch::bench

int main(int count, char** words) {
  setenv("STITCH_EMULATED_EXECUTE", "0", 1);
  setenv("STITCH_EMULATED_QUIET", "1", 1);
  benchmark::Initialize(&count, words);
  if (benchmark::ReportUnrecognizedArguments(count, words)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
