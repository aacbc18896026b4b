#pragma once

#include <string>

#include "tuning/zoo/zoo_report.h"

namespace stitch::cli {

/// A page of HTML without anything from elsewhere and without a script, for light and dark: the models' table, and for
/// each model what failed and why. Equal reports give equal pages, and what one call did of the work is not on it: a
/// zoo that was tuned in several calls has the page of one that was tuned in one.
std::string to_page(const tuning::ZooReport& report);

}  // namespace stitch::cli
