#pragma once

#include <vector>

#include "cli/trace/chrome_trace.h"
#include "client/program.h"
#include "client/stream_program.h"

namespace stitch::cli {

/// Notes when each step of a run on host memory begins and ends, those inside loops and branches too, and tells another
/// observer, whose time counts for nothing. What the host takes is the time of an emulator: it says nothing of a GPU.
class StepTrace final : public client::StepObserver {
 public:
  StepTrace(const api::Program& program, client::StepObserver& next) : program_(program), next_(next) {}

  Status before(const client::StepRun& run) override;
  Status after(const client::StepRun& run) override;

  /// `on`: what it ran on.
  [[nodiscard]] ChromeTrace trace(std::string_view on) const;

 private:
  const api::Program& program_;
  client::StepObserver& next_;
  std::vector<ChromeEvent> events_;
  std::vector<double> begun_;  ///< of the steps around the present one
  double aside_us_ = 0;        ///< spent by the other observer
};

/// The steps of a run on a stream of a GPU one after the other, by its events; moments where the driver has no times.
ChromeTrace trace_of(const api::Program& program, const client::ProgramTime& time, std::string_view on);

}  // namespace stitch::cli
