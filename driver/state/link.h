#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace stitch::driver {

/// One input of the linker: PTX, and what the program called it.
struct LinkInput {
  std::string name;
  std::string ptx;
};

/// Links modules into one: what one of them declares, another defines. All are for the same target; the newest
/// version of PTX among them counts. Names are not told apart by their module: one that two of them define, local or
/// not, is an error. Errors: parse (an input is no PTX, with its name and line), invalid_argument (no input; a name
/// that is defined twice, or nowhere; different targets).
Result<std::string> link_modules(const std::vector<LinkInput>& inputs);

}  // namespace stitch::driver
