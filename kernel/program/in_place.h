#pragma once

#include <vector>

#include "kernel/program/program.h"

namespace stitch::kernel {

/// A result of a kernel that may lie where one of its arguments does: every element of the argument is read by the one
/// thread that writes the same element of the result, and before it does.
struct InPlace {
  int input = 0;   ///< Buffer::number of the argument
  int output = 0;  ///< of the result

  bool operator==(const InPlace&) const = default;
};

/// All such pairs of a kernel that is made under graph::Constraints::in_place, by input and then by output; none where
/// it is not asked for. Whoever launches the kernel takes as many of them as there are, each input and each output
/// once.
///
/// Kept apart are: kernels that take turns, whose later turns read what earlier ones wrote; clusters, whose blocks hand
/// each other what they read; anchors with loops of their own. Within a group a thread has the same elements in all
/// sweeps, so that only its own order counts: what it reads in the sweep of the store it has to ask for at its
/// beginning (Sweep::early), and not asynchronously.
std::vector<InPlace> in_place_pairs(const graph::Graph& kernel, const KernelProgram& program);

}  // namespace stitch::kernel
