#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "db/store.h"
#include "profiler/measure/measure_call.h"
#include "tuning/plans/tuned_fragment.h"

// What a library takes for a call, as the store keeps it: the call's graph is a fragment, what became of the call is a
// candidate of it for the whole plan, and its times are a measurement of that candidate, as those of kernels are.
namespace stitch::tuning {

/// What is known of a library's call on one device.
struct CallTime {
  std::string library;                ///< "cuBLASLt 13.0.0"; empty where it failed
  double us = 0;                      ///< the median
  double noise = 0;                   ///< of the samples, as a share
  std::optional<Error> failure = {};  ///< it hung or ended the runner, and is not called again

  bool operator==(const CallTime&) const = default;
};

/// Of a measurement, or of what came instead.
CallTime call_time_of(const Result<profiler::MeasuredCall>& measured);

/// `key`: of the call's canonical graph, and the target that is planned for. `device`: key of the one that measured.
TrialRecords call_records(const db::PlanKey& key, const Result<profiler::MeasuredCall>& measured,
                          const std::string& device, const db::Provenance& provenance);

/// The newest on that device, or on any where it is empty; nothing: it was not measured there. Errors: those of the
/// store.
Result<std::optional<CallTime>> stored_call(const db::Store& store, const db::PlanKey& key, const std::string& device);

}  // namespace stitch::tuning
