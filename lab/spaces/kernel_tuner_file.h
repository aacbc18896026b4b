#pragma once

#include <nlohmann/json_fwd.hpp>

#include "lab/spaces/recorded_space.h"

namespace stitch::lab {

/// Whether a document has the fields of a Kernel Tuner cache file.
bool is_kernel_tuner_file(const nlohmann::json& document);

/// A cache file of Kernel Tuner (kernel_tuner/cache, versions up to 1.5): `tune_params` lists the values of each of
/// `tune_params_keys`; `cache` has an entry per configuration with `time` (ms; a word is a failure) and, in some,
/// `times`. Errors (parse): a field is missing or of a wrong type; the message names the entry.
Result<RecordedSpace> read_kernel_tuner_file(const nlohmann::json& document);

}  // namespace stitch::lab
