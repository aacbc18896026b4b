#pragma once

#include "cli/explain/drawing.h"
#include "cli/explain/explanation.h"

namespace stitch::cli {

/// More boxes with operators than this are not drawn.
inline constexpr int most_operators_drawn = 150;

/// A fragment's plan: each kernel a frame with its predicted time and bytes, its operators in it, shapes on the arrows.
/// An operator that several kernels compute for themselves stands in each of them; constants stand in the operators
/// that read them; a parameter stands once for each kernel that reads it. Independent parts of a kernel that consist of
/// the same operators are one box with their count. Where more than `most` boxes would be left, the largest kernels
/// become one box each. Arrows between the same two boxes are one.
Drawing draw_fragment(const FragmentExplanation& fragment, int most = most_operators_drawn);

/// A size for people: "512 B", "6.7 MB".
std::string bytes_text(double bytes);

}  // namespace stitch::cli
