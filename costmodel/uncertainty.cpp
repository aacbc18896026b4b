#include "costmodel/uncertainty.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace stitch::costmodel {
namespace {

using kernel::Anchor;

/// What launch, ramp and drain of any kernel may be off, µs: root mean square of the cases of at most 17 MB in
/// bench/results/measured.md.
constexpr double floor_us = 0.7;

struct KindRow {
  KernelKind kind;
  std::string_view name;
  double share;  ///< root mean square of ln(predicted ÷ published), or a guess
};

constexpr std::array rows = {
    KindRow{KernelKind::streaming, "streaming", 0.03},                  // bench/results/measured.md, 25 cases
    KindRow{KernelKind::row_reduction, "row reduction", 0.10},          // the same, 12 cases that were held out
    KindRow{KernelKind::partial_reduction, "partial reduction", 0.15},  // the same has 12 of large sums only: guess
    KindRow{KernelKind::phases, "several phases", 0.25},                // guess: barriers were never compared
    KindRow{KernelKind::scan, "scan", 0.5},                             // guess
    KindRow{KernelKind::sort, "sort", 0.5},                             // guess
    KindRow{KernelKind::scatter, "scatter", 0.5},                       // guess
    KindRow{KernelKind::recurrent, "recurrent", 0.5},                   // guess
    KindRow{KernelKind::contraction, "contraction", 0.20},              // 221 schedules on an H100: 1.19
};

// Root mean squares of ln(ours ÷ library), predicted against measured (bench/results/product_choices.md).
constexpr double convolution_share = 0.30;    // 22 convolutions
constexpr double multiply_adds_share = 0.12;  // three products: few
// Of 82 products by tensor cores 0.24 up to 10 us, 0.13 to 30, 0.07 to 100, 0.04 beyond.
constexpr double tensor_share_at_1us = 0.49, tensor_share_power = -0.48, most_tensor_share = 0.30;
constexpr double least_tensor_share = 0.04;

const KindRow& row_of(KernelKind kind) { return *std::ranges::find(rows, kind, &KindRow::kind); }

KernelKind kind_of(const kernel::GroupProgram& group) {
  KernelKind kind = KernelKind::streaming;
  for (const Anchor& anchor : group.structure.anchors) {
    switch (anchor.kind) {
      case Anchor::Kind::store: break;
      case Anchor::Kind::reduce: kind = std::max(kind, KernelKind::row_reduction); break;
      case Anchor::Kind::partial: kind = std::max(kind, KernelKind::partial_reduction); break;
      case Anchor::Kind::scan: kind = std::max(kind, KernelKind::scan); break;
      case Anchor::Kind::sort: kind = std::max(kind, KernelKind::sort); break;
      case Anchor::Kind::scatter:
      case Anchor::Kind::atomic: kind = std::max(kind, KernelKind::scatter); break;
    }
  }
  return kind;
}

}  // namespace

std::string_view to_string(KernelKind kind) { return row_of(kind).name; }

KernelKind kind_of(const kernel::KernelProgram& program) {
  if (program.recurrent != nullptr) return KernelKind::recurrent;
  KernelKind kind = KernelKind::streaming;
  for (const kernel::PhaseProgram& phase : program.phases) {
    for (const kernel::GroupProgram& group : phase.groups) kind = std::max(kind, kind_of(group));
  }
  // The last block adding up is the rest of a partial reduction; where all wait for one another there is more to it.
  const bool waits =
      std::ranges::any_of(program.schedule.syncs, [](kernel::Sync sync) { return sync != kernel::Sync::last_block; });
  return waits ? std::max(kind, KernelKind::phases) : kind;
}

double uncertainty_us(KernelKind kind, double predicted_us) {
  return std::hypot(row_of(kind).share * predicted_us, floor_us);
}

double uncertainty_us(const kernel::KernelProgram& program, double predicted_us) {
  return uncertainty_us(kind_of(program), predicted_us);
}

double difference_uncertainty_us(ProductKind kind, double us) {
  double share = multiply_adds_share;
  if (kind == ProductKind::convolution) share = convolution_share;
  if (kind == ProductKind::tensor_cores) {
    share = std::clamp(tensor_share_at_1us * std::pow(us, tensor_share_power), least_tensor_share, most_tensor_share);
  }
  return std::hypot(share * us, floor_us);
}

double difference_uncertainty_us(const kernel::ContractionProblem& problem, const kernel::ContractionSchedule& schedule,
                                 double us) {
  using enum ProductKind;
  const bool by_cores = schedule.instruction == kernel::ContractionInstruction::cuda_core;
  return difference_uncertainty_us(problem.is_convolution() ? convolution
                                   : by_cores               ? multiply_adds
                                                            : tensor_cores,
                                   us);
}

}  // namespace stitch::costmodel
