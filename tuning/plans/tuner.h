#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/result.h"
#include "profiler/device/device.h"
#include "search/partition/loop_choice.h"
#include "tuning/kernels/kernel_timer.h"
#include "tuning/kernels/work_counter.h"
#include "tuning/plans/product_trials.h"
#include "tuning/plans/tuned_fragment.h"
#include "tuning/plans/tuner_options.h"

namespace stitch::tuning {

struct TuningContext;

/// Makes plans for canonical fragments: the stages explore → generate → compile → verify → measure, tied together for
/// one target and one pair of devices. It remembers kernels (a kernel that two fragments share is built, verified and
/// measured once) but no fragment; what is known of those is in a store, and RememberingTuner
/// (tuning/plans/remembering_tuner.h) brings the two together.
///
///   STITCH_ASSIGN(const auto tuner, Tuner::create({.target = "h100"}, device, timer, files, clock));
///   STITCH_ASSIGN(const TunedFragment quick, tuner->predict({.fragment = canonical}));  // compiled, not verified
///   STITCH_ASSIGN(const TunedFragment good, tuner->tune({.fragment = canonical, .name = "softmax"}));
///
/// stitchd makes one for its life (daemon/stitchd.cpp), `stitch` one per command (cli/session.cpp). What a plan's
/// making consists of is read in tuning/plans/plan_maker.cpp. Safe to use from several threads; the work is done on the
/// tuner's own threads.
class Tuner {
 public:
  /// `device` is where plans are verified, `timer` where they are measured (null: nowhere); they, `files` and `clock`
  /// must outlive the tuner. Errors: not_found (target), unavailable (NVRTC), unsupported (architecture),
  /// invalid_argument (a cost model that is not for the target).
  static Result<std::unique_ptr<Tuner>> create(TunerOptions options, profiler::Device& device, KernelTimer* timer,
                                               FileSystem& files, const Clock& clock);
  ~Tuner();

  /// What plans are made for: the fields by which the store finds them.
  [[nodiscard]] const db::Target& target() const;
  [[nodiscard]] const search::Scorer& scorer() const;
  /// What predicts, for records: "analytical v1", "combined, trained on 1a2b3c4d".
  [[nodiscard]] const std::string& scorer_name() const;
  /// The devices that plans are verified and measured on; the first one verifies.
  [[nodiscard]] const std::vector<profiler::DeviceIdentity>& judges() const;
  /// Whether tune measures the kernels that it verified.
  [[nodiscard]] bool measures() const;
  /// Whether tune measures whole plans, too.
  [[nodiscard]] bool measures_plans() const;
  /// Whether the library's calls can be measured beside them.
  [[nodiscard]] bool measures_calls() const;
  /// What it has done since it was made.
  [[nodiscard]] WorkCounts work() const;
  /// Candidates that a search builds side by side: fewer are not worth to begin with.
  [[nodiscard]] std::int64_t trials_at_once() const;

  /// The record of a fragment. `canonical` must be a canonical form's graph.
  Result<db::FragmentRecord> describe(const graph::Graph& canonical, std::string_view name) const;

  /// Partition and schedules only; nothing is compiled. Errors: constraint, cancelled.
  Result<search::FusionPlan> explore(const graph::Graph& canonical, const std::stop_token& stop = {}) const;
  /// Whether a loop, with nothing beside it, is expected to take less time as one kernel than turn by turn; false, too,
  /// once `stop` fires.
  [[nodiscard]] bool runs_in_one_kernel(const graph::Graph& loop, const std::stop_token& stop = {}) const;
  /// Whether the fragment is one product of matrices with its epilogue, or one attention: predict and tune make a plan
  /// for it without exploring, and it has no kernels that a search could try further candidates of.
  [[nodiscard]] bool is_product(const graph::Graph& canonical) const;
  /// Whether products may be kernels of ours at all.
  [[nodiscard]] bool has_products(std::optional<ProductsBy> by = {}) const;
  /// Whether a kernel of ours computes a library call of a program, a whole attention, or several products of one
  /// operand (`by`; without it TunerOptions::products): it is then a fragment like any other, with a plan. Several are
  /// only where that is predicted to be faster than each by itself, too.
  /// `rest_apart`: as graph::OwnCall has it.
  [[nodiscard]] bool computes_product(const graph::Graph& call, std::optional<ProductsBy> by = {},
                                      bool rest_apart = true) const {
    return choose_product(call, by, rest_apart) == ProductChoice::ours;
  }
  /// The same, with those apart that are the library's by little. Several products of one operand never are.
  [[nodiscard]] ProductChoice choose_product(const graph::Graph& call, std::optional<ProductsBy> by = {},
                                             bool rest_apart = true) const;
  /// TunerOptions::products.
  [[nodiscard]] ProductsBy products() const;
  /// What the best schedule for a product, convolution or attention is predicted to take, and the library's call or
  /// calls, µs. Nothing: it is none, or no schedule is legal.
  struct ProductPrice {
    double ours_us = 0, library_us = 0;
    double rest_us = 0;  ///< what the library's leave of the epilogues, where that is a kernel of its own
  };
  [[nodiscard]] std::optional<ProductPrice> product_price(const graph::Graph& graph) const;
  /// What a kernel is predicted to take that does nothing but read and write so many bytes, µs.
  [[nodiscard]] double copy_us(double bytes) const;
  /// Every operator in a kernel of its own: what a plan is compared with. Errors: constraint, cancelled.
  Result<search::UnfusedFragment> unfused(const graph::Graph& canonical, const std::stop_token& stop = {}) const;

  /// A plan that can be served now: explored, generated and compiled, not verified. Labelled `predicted`, or `near`
  /// when the history has measured neighbours of all its kernels and they chose the schedules. Errors: unavailable
  /// (this tuner explores only); compile; those of exploring.
  Result<TunedFragment> predict(const PlanRequest& request) const;

  /// The best plan whose every kernel was verified on the device. A candidate that fails is recorded with its outcome
  /// and seed, and the next one is taken; a kernel that has no right one costs the plan this kernel (the fragment is
  /// partitioned again without it, in the last resort operator by operator). With a timer, several candidates of each
  /// kernel are measured and the fastest are taken; then the whole plan is, beside the incumbent. Errors: cancelled;
  /// correctness when no partition has right kernels; those of predict.
  Result<TunedFragment> tune(const PlanRequest& request) const;

  /// Schedules of a product at these places of their ranking (those that there are), each built, verified and, with a
  /// timer, measured: how good the ranking is. `judged` is told each when it is through, so that what ends this early
  /// costs nothing that was found. With an `ablation` the ranking is of the schedules that do without a part of
  /// pipelining. Errors: unsupported (it is no product), constraint, unavailable (this tuner explores only), cancelled;
  /// what is no outcome of a schedule.
  using ProductJudged = std::function<void(const ProductKernels&, const ProductTrial&)>;
  Status try_product(const graph::Graph& canonical, std::span<const int> places, const ProductJudged& judged,
                     const std::stop_token& stop = {},
                     search::PipelineAblation ablation = search::PipelineAblation::none) const;

  /// How much faster the kernel could be at most, µs: what it takes (predicted; where there is a timer, measured,
  /// which builds and verifies its first candidates unless that was done before) beyond a launch and its bytes at the
  /// device's bandwidth. Errors: why no candidate is right; unavailable (this tuner explores only).
  Result<double> measure_headroom(const search::SharedKernel& kernel, const std::stop_token& stop = {}) const;

  /// Searches the kernel's wide space; tune takes the fastest from then on. Errors: unavailable (no timer), cancelled,
  /// those of enumeration; why no candidate is right.
  Result<SearchedKernel> search(const SearchRequest& request) const;

  /// Measures what the library takes for a call, given the canonical graph of what it computes. One that hangs or ends
  /// the runner is noted in the log of faults. Errors: those of KernelTimer::measure_call; unavailable (no timer).
  Result<profiler::MeasuredCall> measure_call(const graph::Graph& call) const;

  /// The kernel that tune chose (or the first that builds, if it was not tuned); null when none builds.
  [[nodiscard]] std::shared_ptr<const BuiltKernel> built(const search::SharedKernel& kernel) const;

 private:
  explicit Tuner(std::unique_ptr<const TuningContext> context);
  std::unique_ptr<const TuningContext> context_;
};

}  // namespace stitch::tuning
