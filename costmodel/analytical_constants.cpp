#include "costmodel/analytical_constants.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace stitch::costmodel {
namespace {

using C = AnalyticalConstants;

constexpr std::array table = {
    ConstantRow{"overlap", &C::overlap, 0.0, 0.6},
    ConstantRow{"duty_alone", &C::duty_alone, 0.2, 1.0},
    ConstantRow{"duty_further", &C::duty_further, 0.0, 0.5},
    ConstantRow{"loaded_latency", &C::loaded_latency, 1.0, 4.0},
    ConstantRow{"flight_knee", &C::flight_knee, 1.0, 8.0},
    ConstantRow{"sm_dram_bytes_per_clock", &C::sm_dram_bytes_per_clock, 16.0, 128.0},
    ConstantRow{"serial", &C::serial, 0.0, 2.0},
    ConstantRow{"warp_issue", &C::warp_issue, 0.1, 1.0},
    ConstantRow{"cooperative_launch_us", &C::cooperative_launch_us, 0.0, 5.0},
    ConstantRow{"cluster_launch_us", &C::cluster_launch_us, 0.0, 5.0},
    ConstantRow{"barrier_of_block", &C::barrier_of_block, 0.0, 1.0},
    ConstantRow{"cluster_idle", &C::cluster_idle, 0.0, 0.3},
    ConstantRow{"last_block", &C::last_block, 0.1, 3.0},
    ConstantRow{"alone_bytes_per_clock", &C::alone_bytes_per_clock, 8.0, 256.0},
    ConstantRow{"most_stretch", &C::most_stretch, 1.0, 4.0},
    ConstantRow{"most_dram_stretch", &C::most_dram_stretch, 1.0, 4.0},
    ConstantRow{"ramp_latencies", &C::ramp_latencies, 0.0, 8.0},
    ConstantRow{"l2_kept", &C::l2_kept, 0.0, 1.0},
    ConstantRow{"row_bytes", &C::row_bytes, 0.0, 512.0},
    ConstantRow{"dram", &C::dram, 0.5, 2.0},
    ConstantRow{"l2", &C::l2, 0.3, 4.0},
    ConstantRow{"shared", &C::shared, 0.3, 4.0},
    ConstantRow{"issue", &C::issue, 0.3, 4.0},
    ConstantRow{"integer", &C::integer, 0.3, 4.0},
    ConstantRow{"f64", &C::f64, 0.3, 4.0},
    ConstantRow{"special", &C::special, 0.3, 4.0},
    ConstantRow{"latency", &C::latency, 0.2, 5.0},
    ConstantRow{"launch", &C::launch, 0.1, 5.0},
    ConstantRow{"barrier", &C::barrier, 0.2, 5.0},
};
static_assert(sizeof(C) == table.size() * sizeof(double), "a row for every constant");

}  // namespace

std::span<const ConstantRow> constant_table() { return table; }

nlohmann::json to_document(const AnalyticalConstants& constants) {
  nlohmann::json document = nlohmann::json::object();
  for (const ConstantRow& row : table) document[std::string(row.name)] = constants.*row.field;
  return document;
}

Result<AnalyticalConstants> constants_from(const nlohmann::json& document) {
  if (!document.is_object()) return make_error(ErrorKind::parse, "analytical constants: not an object");
  AnalyticalConstants constants;
  for (const auto& [name, value] : document.items()) {
    const auto row =
        std::find_if(table.begin(), table.end(), [&](const ConstantRow& each) { return each.name == name; });
    if (row == table.end()) return make_error(ErrorKind::parse, "analytical constants: there is no '{}'", name);
    if (!value.is_number()) return make_error(ErrorKind::parse, "analytical constants: {} is not a number", name);
    const double number = value.get<double>();
    // Written so that a NaN is refused too.
    if (!(number >= row->low && number <= row->high))
      return make_error(ErrorKind::parse, "analytical constants: {} is {}, not between {} and {}", name, number,
                        row->low, row->high);
    constants.*row->field = number;
  }
  return constants;
}

}  // namespace stitch::costmodel
