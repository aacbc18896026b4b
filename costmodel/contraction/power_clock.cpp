#include "costmodel/contraction/power_clock.h"

#include <algorithm>
#include <cmath>

#include "costmodel/contraction/product_rates.h"

namespace stitch::costmodel {
namespace {

/// The logarithm is off by less than a thousandth after so many.
constexpr int secants = 4;

}  // namespace

double time_at_clock(const TimeAtFullClock& full, double share) {
  return norm_of({full.loop / share, full.l2 / share, full.dram}) + full.behind / share;
}

double clock_under_power(const TimeAtFullClock& full, double always) {
  if (always >= 1 || full.multiplying <= 0) return 1;
  // Power at a clock c is multiplying · c² ÷ time(c), and may be what it is where all of the time is multiplying,
  // multiplying ÷ always: always³. The longer of both sides' logarithms, which rises with c.
  const auto above = [&](double log_clock) {
    const double time = time_at_clock(full, std::exp(log_clock));
    return 2 * log_clock - std::log(always * always * always * time / full.multiplying);
  };
  double high = 0, over = above(high);
  if (over <= 0) return 1;
  double low = std::log(always), under = above(low);
  if (under >= 0) return always;
  for (int i = 0; i < secants; ++i) {
    const double middle = low + (high - low) * -under / (over - under), off = above(middle);
    (off > 0 ? high : low) = middle;
    (off > 0 ? over : under) = off;
  }
  return std::exp(low + (high - low) * -under / (over - under));
}

}  // namespace stitch::costmodel
