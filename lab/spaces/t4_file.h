#pragma once

#include <nlohmann/json_fwd.hpp>

#include "lab/spaces/recorded_space.h"

namespace stitch::lab {

/// Whether a document has the fields of T4 results.
bool is_t4_file(const nlohmann::json& document);

/// Results in the T4 format of the auto-tuning community (results-schema.json 1.0.0, which Kernel Tuner, KTT and others
/// write): `results` is a list with a `configuration`, an `invalidity` ("correct" or how it failed), `measurements` and
/// `times.runtimes` each. The time is the measurement that `objectives` names first, or called "time"; without one, the
/// mean of the runtimes. Its unit is the measurement's own, or the metadata's `timeunit`, or ms. Values of parameters
/// are those that occur. Errors (parse): a field is missing or of a wrong type; the message names the result.
Result<RecordedSpace> read_t4_file(const nlohmann::json& document);

}  // namespace stitch::lab
