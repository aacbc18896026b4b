#include "profiler/measure/calibration.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "profiler/measure/calibration_kernels.h"

namespace stitch::profiler {
namespace {

constexpr std::array<std::pair<std::string_view, double DeviceSpec::*>, 9> fields = {{
    {"clock_hz", &DeviceSpec::clock_hz},
    {"copy_fraction", &DeviceSpec::copy_fraction},
    {"l2_bandwidth", &DeviceSpec::l2_bandwidth},
    {"shared_latency", &DeviceSpec::shared_latency},
    {"l2_latency", &DeviceSpec::l2_latency},
    {"dram_latency", &DeviceSpec::dram_latency},
    {"launch_us", &DeviceSpec::launch_us},
    {"grid_barrier_us", &DeviceSpec::grid_barrier_us},
    {"block_barrier_cycles", &DeviceSpec::block_barrier_cycles},
}};
constexpr std::string_view shared_bandwidth = "shared_bytes_per_clock";  // the one integer among them
/// Its kernel was rewritten after a GPU had shown it to be wrong, and none has measured it since: what it says is
/// shown, and not planned with.
constexpr std::string_view unproven = "l2_bandwidth";

/// How far from the table a figure is believed: shared memory's width is the architecture's.
double believed(std::string_view name) { return name == shared_bandwidth ? 1.1 : 4; }

MeasureOptions options(bool cold_l2) {
  MeasureOptions options;
  options.cold_l2 = cold_l2;
  options.counters = false;
  return options;
}

/// Takes the measurements, each on a session of its own, so that buffers do not add up.
class Bench {
 public:
  Bench(TimedDevice& device, const codegen::CompiledKernel& compiled, const CalibrationSizes& sizes)
      : device_(device), compiled_(compiled), sizes_(sizes) {}

  /// µs of one launch.
  template <class Make>
  Result<Measurement> time(Make&& make, bool cold_l2) {
    STITCH_ASSIGN(const auto session, device_.timed_session());
    STITCH_ASSIGN(const Measured done, run(*session, make, 1, cold_l2));
    return done.measurement;
  }

  /// µs of a graph of `count` launches, one after the other.
  template <class Make>
  Result<Measurement> time_graph(Make&& make, std::size_t count) {
    STITCH_ASSIGN(const auto session, device_.timed_session());
    STITCH_ASSIGN(const Measured done, run(*session, make, count, false));
    return done.measurement;
  }

  /// Cycles per step, by the SM's own clock, over all launches of a measurement.
  template <class Make>
  Result<Figure> cycles(Make&& make, double steps, bool cold_l2) {
    STITCH_ASSIGN(const auto session, device_.timed_session());
    STITCH_ASSIGN(const Measured done, run(*session, make, 1, cold_l2));
    std::vector<std::uint64_t> ring(cycle_ring_words);
    STITCH_TRY(session->read(done.cycles, 0, std::as_writable_bytes(std::span(ring))));
    return cycles_per_step(ring, steps);
  }

  /// The difference between two lengths of the same thing leaves out what a launch costs.
  template <class Make>
  Result<Figure> per_step_of(Make&& make, std::int64_t few, std::int64_t many, bool cold_l2) {
    STITCH_ASSIGN(const auto shorter, time([&](CalibrationKernels& k) { return make(k, few); }, cold_l2));
    STITCH_ASSIGN(const auto longer, time([&](CalibrationKernels& k) { return make(k, many); }, cold_l2));
    return per_step(shorter, longer, many - few);
  }

  [[nodiscard]] const CalibrationSizes& sizes() const { return sizes_; }

 private:
  struct Measured {
    Measurement measurement;
    BufferHandle cycles;  ///< where the kernel noted them, if it does
  };

  /// Times `count` launches of what `make` prepares, one launch by itself, several as one CUDA graph. Errors:
  /// unsupported (the device tells no time).
  template <class Make>
  Result<Measured> run(TimedSession& session, Make&& make, std::size_t count, bool cold_l2) {
    CalibrationKernels kernels(session, compiled_);
    STITCH_ASSIGN(const CalibrationRun prepared, make(kernels));
    MeasureTask task;
    task.rotations = {std::vector<PlanStep>(count, prepared.launch)};
    task.cuda_graph = count > 1;
    task.options = options(cold_l2);
    STITCH_ASSIGN(Measurement measured, session.measure(task));
    if (measured.kind != Measurement::Kind::device_time) {
      return make_error(ErrorKind::unsupported, "the device gives {} by {}, no times: nothing can be calibrated",
                        measured.unit, measured.method);
    }
    return Measured{std::move(measured), prepared.cycles};
  }

  TimedDevice& device_;
  const codegen::CompiledKernel& compiled_;
  const CalibrationSizes& sizes_;
};

Result<Figure> clock_hz(Bench& bench) {
  const auto spin = [](CalibrationKernels& k, std::int64_t cycles) { return k.spin(cycles); };
  STITCH_ASSIGN(const Figure us, bench.per_step_of(spin, 100'000, 400'000, false));
  return rate(1e6, us);
}

Result<Figure> copy_fraction(Bench& bench, const DeviceSpec& spec) {
  const std::int64_t bytes = bench.sizes().copy_bytes;
  STITCH_ASSIGN(const auto measured, bench.time([&](CalibrationKernels& k) { return k.copy(bytes); }, true));
  return rate(2.0 * bytes * 1e6 / spec.dram_bandwidth, {measured.median, measured.noise});
}

Result<Figure> l2_bandwidth(Bench& bench) {
  const CalibrationSizes& sizes = bench.sizes();
  const std::int64_t blocks = 2 * sizes.blocks;
  const auto read = [&](CalibrationKernels& k, std::int64_t turns) { return k.l2_read(sizes.l2_bytes, turns, blocks); };
  STITCH_ASSIGN(const Figure us, bench.per_step_of(read, 16, 80, false));
  return rate(static_cast<double>(blocks) * CalibrationKernels::l2_turn_bytes * 1e6, us);
}

Result<Figure> shared_bytes_per_clock(Bench& bench) {
  const CalibrationSizes& sizes = bench.sizes();
  const auto read = [&](CalibrationKernels& k) { return k.shared_read(sizes.rounds, sizes.blocks); };
  STITCH_ASSIGN(const Figure cycles, bench.cycles(read, sizes.rounds, false));
  return rate(1024 * 16, cycles);
}

Result<Figure> shared_latency(Bench& bench) {
  const CalibrationSizes& sizes = bench.sizes();
  const auto chase = [&](CalibrationKernels& k) { return k.shared_chase(sizes.chain_steps); };
  return bench.cycles(chase, sizes.chain_steps, false);
}

Result<Figure> l2_latency(Bench& bench) {
  const CalibrationSizes& sizes = bench.sizes();
  const auto chase = [&](CalibrationKernels& k) {  // after one round all lines are in L2
    return k.chase(sizes.l2_chain_lines, sizes.l2_chain_lines, sizes.chain_steps);
  };
  return bench.cycles(chase, sizes.chain_steps, false);
}

Result<Figure> dram_latency(Bench& bench) {
  const CalibrationSizes& sizes = bench.sizes();
  const auto chase = [&](CalibrationKernels& k) { return k.chase(sizes.dram_chain_lines, 0, sizes.chain_steps); };
  return bench.cycles(chase, sizes.chain_steps, true);
}

/// What a kernel more in a graph costs that does nearly nothing. What it takes alone is no part to be taken off: the
/// device's clock counts most of a launch as the kernel's own time (on an H100 all but 0.06 us of it).
Result<Figure> launch_us(Bench& bench) {
  const auto tiny = [](CalibrationKernels& k) { return k.tiny(); };
  STITCH_ASSIGN(const auto shorter, bench.time_graph(tiny, 32));
  STITCH_ASSIGN(const auto longer, bench.time_graph(tiny, 160));
  return per_step(shorter, longer, 128);
}

Result<Figure> grid_barrier_us(Bench& bench) {
  const auto barrier = [&](CalibrationKernels& k, std::int64_t rounds) {
    return k.grid_barrier(rounds, bench.sizes().blocks);
  };
  return bench.per_step_of(barrier, 64, 320, false);
}

/// The cost model takes a barrier of n threads to cost the constant times 1 + n / 512 (costmodel/features.cpp).
Result<Figure> block_barrier_cycles(Bench& bench) {
  const CalibrationSizes& sizes = bench.sizes();
  const auto barrier = [&](CalibrationKernels& k) { return k.block_barrier(sizes.rounds, sizes.blocks); };
  return bench.cycles(barrier, sizes.rounds * (1 + 256 / 512.0), false);
}

}  // namespace

CalibrationSizes CalibrationSizes::of(const DeviceSpec& spec) {
  const auto lines = [](std::int64_t bytes) {
    return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(bytes) / 128));
  };
  CalibrationSizes sizes;
  sizes.copy_bytes = std::max<std::int64_t>(std::int64_t{256} << 20, 8 * lines(spec.l2_bytes) * 128);
  // Of a GPU with two partitions of L2 each keeps what its SMs read: what is read must fit one of them, and easily.
  sizes.l2_bytes = lines(spec.l2_bytes / 8) * 128;
  sizes.l2_chain_lines = lines(spec.l2_bytes / 8);
  sizes.dram_chain_lines = 16 * lines(spec.l2_bytes);
  sizes.blocks = spec.sm_count;
  return sizes;
}

Result<Calibration> calibrate(TimedDevice& device, const DeviceSpec& spec, codegen::Compiler& compiler,
                              const std::string& architecture, const CalibrationSizes& sizes) {
  STITCH_ASSIGN(const codegen::CompiledKernel compiled, compile_calibration(compiler, architecture));
  Bench bench(device, compiled, sizes);
  Calibration calibration;
  std::optional<Error> first;
  const auto add = [&](std::string_view name, const Result<Figure>& figure) -> Status {
    if (figure) {
      calibration.constants.push_back({std::string(name), *figure});
      return {};
    }
    const Error why = figure.error().within(name);
    if (why.kind == ErrorKind::unsupported) return why;  // as will be the others
    if (!first) first = why;
    calibration.failures.push_back(why.message);
    return {};
  };
  STITCH_TRY(add("clock_hz", clock_hz(bench)));
  STITCH_TRY(add("copy_fraction", copy_fraction(bench, spec)));
  STITCH_TRY(add("l2_bandwidth", l2_bandwidth(bench)));
  STITCH_TRY(add(shared_bandwidth, shared_bytes_per_clock(bench)));
  STITCH_TRY(add("shared_latency", shared_latency(bench)));
  STITCH_TRY(add("l2_latency", l2_latency(bench)));
  STITCH_TRY(add("dram_latency", dram_latency(bench)));
  STITCH_TRY(add("launch_us", launch_us(bench)));
  STITCH_TRY(add("grid_barrier_us", grid_barrier_us(bench)));
  STITCH_TRY(add("block_barrier_cycles", block_barrier_cycles(bench)));
  if (calibration.constants.empty()) return *first;
  return calibration;
}

double table_value(const DeviceSpec& spec, std::string_view name) {
  if (name == shared_bandwidth) return spec.shared_bytes_per_clock;
  for (const auto& [field, member] : fields) {
    if (field == name) return spec.*member;
  }
  return 0;
}

CalibratedSpec apply(const DeviceSpec& spec, const Calibration& calibration) {
  CalibratedSpec result{spec, {}};
  for (const CalibratedConstant& constant : calibration.constants) {
    const double table = table_value(spec, constant.name), value = constant.figure.value;
    if (table <= 0) {
      result.notes.push_back(fmt::format("{}: the device table has no such constant", constant.name));
    } else if (constant.name == unproven) {
      result.notes.push_back(fmt::format("{}: {:.4g} was measured; the table's {:.4g} stays until that is proven",
                                         constant.name, value, table));
    } else if (!(value >= table / believed(constant.name) && value <= table * believed(constant.name)) ||
               (constant.name == "copy_fraction" && value > 1)) {
      result.notes.push_back(
          fmt::format("{}: {:.4g} was measured, the table's {:.4g} stays", constant.name, value, table));
    } else if (constant.name == shared_bandwidth) {
      result.spec.shared_bytes_per_clock = std::lround(value);
    } else {
      for (const auto& [field, member] : fields) {
        if (field == constant.name) result.spec.*member = value;
      }
    }
  }
  return result;
}

nlohmann::json to_document(const Calibration& calibration) {
  nlohmann::json document = nlohmann::json::object();
  for (const auto& [name, figure] : calibration.constants) {
    document[name] = {{"value", figure.value}, {"spread", figure.spread}};
  }
  return document;
}

Result<Calibration> calibration_from(const nlohmann::json& document) {
  if (!document.is_object()) return make_error(ErrorKind::parse, "calibrated constants: not an object");
  Calibration calibration;
  for (const auto& [name, entry] : document.items()) {
    try {
      const Figure figure{entry.at("value").get<double>(), entry.at("spread").get<double>()};
      if (!std::isfinite(figure.value) || !std::isfinite(figure.spread)) {
        return make_error(ErrorKind::parse, "calibrated constants: {}: {}", name, entry.dump());
      }
      calibration.constants.push_back({name, figure});
    } catch (const nlohmann::json::exception& exception) {
      return make_error(ErrorKind::parse, "calibrated constants: {}: {}", name, exception.what());
    }
  }
  return calibration;
}

Result<Figure> per_step(const Measurement& shorter, const Measurement& longer, double steps) {
  const double difference = longer.median - shorter.median;
  if (difference <= 0) {
    return make_error(ErrorKind::unavailable, "{} steps more took {:.2f} us instead of {:.2f} us", steps, longer.median,
                      shorter.median);
  }
  const double spread = std::hypot(longer.noise * longer.median, shorter.noise * shorter.median) / difference;
  return Figure{difference / steps, spread};
}

Result<Figure> cycles_per_step(std::span<const std::uint64_t> ring, double steps) {
  const std::size_t noted = ring.empty() ? 0 : std::min<std::uint64_t>(ring[0], ring.size() - 1);
  if (noted == 0) return make_error(ErrorKind::corrupt, "no cycles were noted");
  std::vector<double> cycles;
  for (const std::uint64_t each : ring.subspan(1, noted)) cycles.push_back(static_cast<double>(each) / steps);
  return Figure{median_of(cycles), trimmed_deviation(cycles)};
}

Figure rate(double amount, const Figure& figure) { return {amount / figure.value, figure.spread}; }

}  // namespace stitch::profiler
