#pragma once

#include <string_view>

#include "base/result.h"
#include "daemon/model_tuning.h"

namespace stitch::cli {

/// Reads what daemon::to_json(ModelReport) wrote: the result of a server's job. Error: parse, naming the field.
Result<daemon::ModelReport> model_report_from_json(std::string_view text);

}  // namespace stitch::cli
