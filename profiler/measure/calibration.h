#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/device_spec.h"
#include "base/result.h"
#include "codegen/compile/compiler.h"
#include "profiler/measure/measurement.h"
#include "profiler/measure/timed_device.h"

// The device table's constants, measured on the device itself by microbenchmarks
// (profiler/measure/calibration_kernels.h, docs/measurement.md).
namespace stitch::profiler {

/// A measured quantity; `spread` relative, by trimmed_deviation.
struct Figure {
  double value = 0;
  double spread = 0;

  bool operator==(const Figure&) const = default;
};

/// One constant, by the name of its field in DeviceSpec and in that field's unit.
struct CalibratedConstant {
  std::string name;
  Figure figure;

  bool operator==(const CalibratedConstant&) const = default;
};

struct Calibration {
  std::vector<CalibratedConstant> constants;
  std::vector<std::string> failures = {};  ///< "NAME: why" of what could not be measured; not kept with the others

  bool operator==(const Calibration&) const = default;
};

/// How large the benchmarks are.
struct CalibrationSizes {
  std::int64_t copy_bytes = 0;        ///< each way; far more than L2
  std::int64_t l2_bytes = 0;          ///< read again and again: a power of two, a small part of L2
  std::int64_t l2_chain_lines = 0;    ///< of 128 bytes; a power of two; an eighth of L2
  std::int64_t dram_chain_lines = 0;  ///< the same; far more than L2
  std::int64_t chain_steps = 2048;
  std::int64_t rounds = 4096;  ///< of what happens in a block
  std::int64_t blocks = 0;     ///< one an SM

  static CalibrationSizes of(const DeviceSpec& spec);
};

/// Measures all constants. `spec` is the entry of the table that comes closest; its peak bandwidth is what
/// copy_fraction is a share of. A constant that cannot be measured is a failure, and costs no other one. Errors: those
/// of the compiler; unsupported (the device counts, and tells no times); the first failure's, if nothing was measured.
Result<Calibration> calibrate(TimedDevice& device, const DeviceSpec& spec, codegen::Compiler& compiler,
                              const std::string& architecture, const CalibrationSizes& sizes);

/// The table's entry with what was measured in the place of what it says. A figure of less than a quarter or more than
/// four times of the table's, or a share above 1, is no figure of this device, but of something that went wrong: the
/// table's stays, and a note says so. Names that the table lacks are noted, too.
struct CalibratedSpec {
  DeviceSpec spec;
  std::vector<std::string> notes;
};
CalibratedSpec apply(const DeviceSpec& spec, const Calibration& calibration);

/// The table's value for a constant's name; 0 for names that are none.
double table_value(const DeviceSpec& spec, std::string_view name);

/// {"copy_fraction": {"value": 0.92, "spread": 0.002}, …}; what db::Device::constants holds.
nlohmann::json to_document(const Calibration& calibration);
/// Errors: parse, naming the constant.
Result<Calibration> calibration_from(const nlohmann::json& document);

// What the figures follow from.

/// The amount per step, when `steps` more of them make the difference between two measurements. Errors: unavailable
/// (the longer one is not longer).
Result<Figure> per_step(const Measurement& shorter, const Measurement& longer, double steps);
/// Median and spread of the cycles in a ring (calibration_kernels.h), divided by `steps`. Errors: corrupt (it is
/// empty).
Result<Figure> cycles_per_step(std::span<const std::uint64_t> ring, double steps);
/// `amount` ÷ the figure: a rate of a time.
Figure rate(double amount, const Figure& figure);

}  // namespace stitch::profiler
