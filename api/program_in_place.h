#pragma once

#include <vector>

#include "api/program_document.h"

namespace stitch::api {

/// Which results of a program may lie where its parameters do, any of these at once, each parameter and each result
/// once: those of one type, where whoever reads the parameter comes before whoever writes the result, or is the very
/// fragment that does, whose plan allows it (Plan::in_place: of plans made under the constraint `in_place`). Holds for
/// who runs the steps in order, a StreamProgram. What the program itself updates in place is not among them.
std::vector<InPlace> in_place_of(const Program& program);

}  // namespace stitch::api
