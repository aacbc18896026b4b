#pragma once

#include "base/result.h"
#include "lab/spaces/recorded_space.h"
#include "search/trials/transfer_prior.h"

namespace stitch::lab {

/// What ALCOP's analytical model (arXiv 2210.16691, section 4.2; techniques as in costmodel/contraction) says of every
/// configuration of a space whose kernel it knows, as a prior of the search: log times, in the place of a measured
/// neighbour's. It knows CLBlast's Xgemm and Kernel Tuner's convolution_kernel by what their parameters mean (tiles of
/// blocks and threads, vectors, what goes through shared memory): a turn takes what multiplying, shared memory or
/// issuing takes, loads are hidden by the other blocks of an SM alone (neither kernel has stages), and the last round
/// of blocks is as long as any. Figures are the GPU's data sheet's; no constant is fitted to a space.
///
/// Only the ranking is meant. Errors: unsupported (another kernel, or a GPU whose figures are not known).
Result<search::TransferPrior> pipeline_prior(const RecordedSpace& recorded);

}  // namespace stitch::lab
