#pragma once

#include <string_view>

#include "base/result.h"
#include "import/imported.h"

namespace stitch::import {

/// Adds a donation to a model: which parameter's memory may be overwritten, and by which result.
///
///     cache:new_cache                     by their names in the source
///     3:0                                 by their positions
///     cache                               by the only result of the parameter's type
///     past_key_values.*:present.*         every parameter of such a name, each by the result of the same middle part
///
/// Errors: invalid_argument, naming the text: no such parameter or result, another type, one that is donated or
/// overwritten already, several results (or none) of the type.
Status donate(Imported& model, std::string_view text);

/// Checks a donation by position and adds it. One that is there already is no error.
Status donate(Imported& model, graph::Donation donation);

}  // namespace stitch::import
