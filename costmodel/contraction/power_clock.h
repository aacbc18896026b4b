#pragma once

namespace stitch::costmodel {

/// What a kernel takes at the full clock, µs.
struct TimeAtFullClock {
  double multiplying = 0;   ///< that an SM's tensor cores or lanes are busy with it, of the one that has most
  double loop = 0, l2 = 0;  ///< limits on the SMs' clock, which L2 shares
  double dram = 0;          ///< on the memory's own
  double behind = 0;        ///< on the SMs' clock, before and behind the loop
};

/// The same where that clock is `share` of the full one, µs.
double time_at_clock(const TimeAtFullClock& full, double share);

/// Share of its clock that power leaves a board, of which it leaves `always` to units that multiply all of the time.
/// They draw most of what a product does, for each clock as the square of the voltage, and the voltage rises with the
/// clock: so that a board's power goes with the third power of the clock and with the share of the time that they are
/// busy, and a product that waits keeps more of its clock, but not so much more as it waits.
double clock_under_power(const TimeAtFullClock& full, double always);

}  // namespace stitch::costmodel
