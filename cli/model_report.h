#pragma once

#include <string_view>

#include "base/result.h"
#include "tuning/models/model_tuning.h"

namespace stitch::cli {

/// Reads what daemon::to_json(ModelReport) wrote: the result of a server's job. Error: parse, naming the field.
Result<tuning::ModelReport> model_report_from_json(std::string_view text);

}  // namespace stitch::cli
