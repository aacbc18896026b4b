#include "lab/differential/result_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "graph/literal.h"
#include "graph/reference/evaluate_error.h"

namespace stitch::lab {
namespace {

using graph::ConstantAttributes;
using graph::DType;
using graph::Tensor;

/// Distance of neighbouring numbers of the type at `value`.
double spacing(DType dtype, double value) {
  int exponent = 0;
  const double magnitude = std::max(std::fabs(value), graph::smallest_normal(dtype));
  std::frexp(magnitude, &exponent);
  return std::ldexp(1.0, exponent - 1 - graph::info(dtype).mantissa_bits);
}

std::string position_text(const graph::Dims& dims, std::int64_t flat) {
  graph::Dims position(dims.size());
  for (std::size_t d = dims.size(); d-- > 0;) {
    position[d] = flat % dims[d];
    flat /= dims[d];
  }
  return graph::to_string(position);
}

double largest_magnitude(const Tensor& reference) {
  double largest = 0;
  for (std::int64_t i = 0; i < reference.elements(); ++i) {
    if (std::isfinite(reference.at(i))) largest = std::max(largest, std::fabs(reference.at(i)));
  }
  return largest;
}

/// One result's comparison, added to that of the ones before it.
class Comparer {
 public:
  Comparer(std::size_t result, const Tensor& reference, const ConstantAttributes& given, ResultComparison& total)
      : result_(result), reference_(reference), given_(given), dtype_(reference.type.dtype), total_(total) {}

  void run() {
    const double largest = largest_magnitude(reference_);
    for (std::int64_t i = 0; i < reference_.elements(); ++i) {
      ++total_.elements;
      if (graph::is_floating(dtype_)) {
        compare_floats(i, largest);
      } else {
        compare_integers(i);
      }
    }
  }

 private:
  void compare_integers(std::int64_t i) {
    const std::int64_t value = graph::load_integer(dtype_, graph::element_at(given_, i));
    if (value == reference_.integers[i]) {
      ++total_.equal;
    } else if (std::isinf(reference_.bound(i))) {
      ++total_.unchecked;
    } else if (graph::accepts(reference_.at(i), reference_.bound(i), graph::element(given_, i))) {
      ++total_.within;
    } else {
      ++total_.number;
      const double distance = std::fabs(graph::element(given_, i) - reference_.at(i));
      total_.most_ulps = std::max(total_.most_ulps, distance);
      note(i, std::to_string(value), std::to_string(reference_.integers[i]));
    }
  }

  void compare_floats(std::int64_t i, double largest) {
    const double value = graph::element(given_, i), wanted = reference_.at(i), bound = reference_.bound(i);
    const double rounded = graph::round_to(dtype_, wanted);
    if (std::isfinite(value) && std::isfinite(rounded) && largest > 0) {
      total_.most_relative = std::max(total_.most_relative, std::fabs(value - wanted) / largest);
    }
    if (std::isnan(value) && std::isnan(rounded)) {
      ++total_.equal;
    } else if (value == rounded) {
      const bool other_zero = value == 0 && wanted == 0 && std::signbit(value) != std::signbit(wanted);
      if (other_zero && bound == 0) {
        ++total_.zero_sign;
        note(i, value, wanted, bound);
      } else {
        ++total_.equal;
      }
    } else if (std::isinf(bound)) {
      ++total_.unchecked;
    } else if (graph::accepts(wanted, bound, value)) {
      ++total_.within;
    } else {
      count_wrong(value, wanted, rounded);
      note(i, value, wanted, bound);
    }
  }

  void count_wrong(double value, double wanted, double rounded) {
    if (std::isnan(value) || std::isnan(rounded)) {
      ++total_.nan;
    } else if (std::isinf(value) || std::isinf(rounded)) {
      ++total_.infinite;
    } else {
      ++total_.number;
      total_.most_ulps = std::max(total_.most_ulps, std::fabs(value - wanted) / spacing(dtype_, wanted));
    }
  }

  void note(std::int64_t i, double value, double wanted, double bound) {
    note(i, fmt::format("{}", value), fmt::format("{} ± {}", wanted, bound));
  }

  void note(std::int64_t i, const std::string& value, const std::string& wanted) {
    if (!total_.first_wrong.empty()) return;
    total_.first_wrong =
        fmt::format("result {} {}: {}, reference {}", result_, position_text(reference_.type.dims, i), value, wanted);
  }

  const std::size_t result_;
  const Tensor& reference_;
  const ConstantAttributes& given_;
  const DType dtype_;
  ResultComparison& total_;
};

}  // namespace

ResultComparison compare_with_reference(const std::vector<Tensor>& reference,
                                        const std::vector<ConstantAttributes>& results) {
  ResultComparison total;
  for (std::size_t r = 0; r < results.size(); ++r) {
    if (r < reference.size() && reference[r].type == results[r].type) {
      Comparer(r, reference[r], results[r], total).run();
      continue;
    }
    // Counted as at least one element, so that results without elements are not right by accident.
    const std::int64_t elements = std::max<std::int64_t>(1, results[r].type.elements());
    total.elements += elements;
    total.number += elements;
    if (!total.first_wrong.empty()) continue;
    total.first_wrong =
        fmt::format("result {} is {}, the reference's {}", r, graph::to_string(results[r].type),
                    r < reference.size() ? graph::to_string(reference[r].type) : std::string("is not there"));
  }
  return total;
}

}  // namespace stitch::lab
