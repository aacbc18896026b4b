#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/subprocess.h"
#include "cli/contractions/product.h"
#include "cli/explain/explanation.h"
#include "tuning/models/model_outline.h"

namespace stitch::cli {

/// One page of HTML without anything from elsewhere and without a script, for light and dark.
struct Page {
  std::string html;
  std::optional<Error> undrawn;  ///< why the first of the drawings that are missing could not be made
};

/// The page of a model: its outline (null: none, where not all fragments are explained), and for each fragment its plan
/// as a picture, a table of its kernels, the text of the explanation and, where it was run, the kernels' source; then
/// the products with the pipelines of their kernels over time. Drawings that cannot be laid out are left out, with the
/// reason in their place.
Page to_page(std::string_view title, const tuning::ModelOutline* outline,
             const std::vector<FragmentExplanation>& fragments, const std::vector<Product>& products,
             ProcessLauncher& launcher);

/// The style sheet of this page, without that of its drawings, for other pages.
std::string_view page_style();

}  // namespace stitch::cli
