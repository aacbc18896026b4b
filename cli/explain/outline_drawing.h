#pragma once

#include "cli/explain/drawing.h"
#include "cli/explain/explanation.h"
#include "tuning/models/model_outline.h"

namespace stitch::cli {

/// A whole model: each different fragment and each different boundary once, with how often it stands there; the bodies
/// of loops in frames of their own. Of a model with many arrows only those are drawn that say what a part waits for,
/// the input that is ready last; the others are named in the tooltips of their ends. `fragments`: the explanations of
/// all the outline's entries, in their order. A fragment's box leads to its section of the page ("#f" and its key).
Drawing draw_outline(const tuning::ModelOutline& outline, const std::vector<FragmentExplanation>& fragments);

/// Whether a drawing of the outline leaves out what is not waited for.
bool leaves_out_flows(const tuning::ModelOutline& outline);

}  // namespace stitch::cli
