#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <variant>

#include "api/program_document.h"
#include "api/protocol.h"
#include "base/clock.h"
#include "base/result.h"
#include "daemon/jobs/constant_budget.h"
#include "daemon/jobs/job_runner.h"
#include "daemon/jobs/lookup_answers.h"
#include "daemon/jobs/metrics.h"
#include "daemon/jobs/notifier.h"
#include "daemon/jobs/planners.h"
#include "daemon/jobs/program_answers.h"
#include "daemon/jobs/single_flight.h"
#include "daemon/jobs/store_watch.h"
#include "db/store.h"
#include "graph/canonical.h"
#include "graph/constraints.h"
#include "tuning/cost_models/cost_model_training.h"
#include "tuning/plans/remembering_tuner.h"
#include "tuning/plans/tuner.h"

namespace stitch::daemon {

struct ServiceOptions {
  JobRunnerOptions jobs;
  SingleFlightOptions predictions;
  AnswerCacheOptions answers;
  /// How long look-ups do not start another job for a fragment whose tuning failed; submitting it always does.
  std::int64_t remember_failure_us = 600'000'000;
  /// The caller knows that no other process works on the store's jobs: what is marked as running was left behind.
  bool alone = true;
  tuning::IncrementalOptions training;  ///< of cost models, from what is measured
  /// Candidates of a fragment's kernels that its tuning tries beyond the first few, where nobody says otherwise.
  std::int64_t fragment_trials = 0;
  /// Finished jobs, plans that were overtaken unmeasured and models' files are dropped when they are older; 0: never.
  std::int64_t keep_us = 0;
  /// Makes tuners for clients' GPUs of other classes than the server's own; empty: they are refused.
  MakeTuner make_tuner = {};
};

inline constexpr std::string_view fragment_job = "tune-fragment";
inline constexpr std::string_view model_job = "tune-model";
inline constexpr std::string_view training_job = "train-cost-model";
inline constexpr std::string_view pruning_job = "prune";

/// A look-up that missed and waits for its prediction.
struct PendingLookup {
  api::LookupAnswer answer;  ///< what is known already: what the closest plan differs in, the job
  graph::CanonicalForm form;
  const Planner* planner = nullptr;  ///< whose plans were looked for
  ConstantBudget::Hold constants;
  Flight flight;
  Notifier::Deadline until;
};

/// What stitchd does, without the transport: looks plans up, predicts them on a miss, and improves them in background
/// jobs that survive the process.
///
///   STITCH_ASSIGN(const auto service, Service::create(store, tuner, clock, options));
///   service->start();
///   STITCH_ASSIGN(const api::LookupAnswer answer, service->lookup({fragment, "softmax", 2000, true}));
///
/// A look-up asks the store (find_plan); a miss joins a prediction (SingleFlight), which RememberingTuner makes and
/// keeps, and enqueues a job, which JobRunner claims and daemon/jobs/service_jobs.cpp works on. stitchd makes one
/// (daemon/stitchd.cpp), the routes (daemon/http/routes.h) are its callers; plain listings go to store(). Safe to call
/// from any number of threads. Nothing polls: who waits is told by a flight's landing, or by changes().
class Service {
 public:
  /// Records the devices and takes the store's orphaned jobs back; nothing is worked on before start(). All arguments
  /// must outlive it. Errors: those of the store; invalid_argument (trials, and nothing measures).
  static Result<std::unique_ptr<Service>> create(db::Store& store, const tuning::Tuner& tuner, const Clock& clock,
                                                 ServiceOptions options);
  ~Service();

  /// Starts to work on jobs; the first one may be upkeep of the store.
  void start();
  /// Tells all work to stop, and waits for none of it.
  void request_stop();
  /// Stops jobs, which go back to the queue, and waits for them. Errors: those of the store.
  Status stop();

  /// Answers a look-up that hits, or one that misses while too many predictions are under way; for any other miss
  /// begins a prediction, or joins the one that is there. Errors: invalid_argument, those of the store.
  /// `arrived`: when the caller began to wait.
  Result<std::variant<api::LookupAnswer, PendingLookup>> begin_lookup(
      const api::LookupRequest& request, Notifier::Deadline arrived = std::chrono::steady_clock::now());
  /// Answers a look-up that missed, when its flight has landed or its deadline has passed: without a plan if it was the
  /// deadline. Errors: what the prediction failed with; those of the store.
  Result<api::LookupAnswer> end_lookup(const PendingLookup& lookup);
  /// Begins a look-up, blocks for as long as it takes, and ends it.
  Result<api::LookupAnswer> lookup(const api::LookupRequest& request);

  /// Notified when jobs or what is served may have changed, by this process at once, by others that share the store
  /// after StoreWatch::every. Nobody who waits has to look by himself.
  [[nodiscard]] Notifier& changes() { return changes_; }
  /// Notified when something else is served, likewise.
  [[nodiscard]] Notifier& promoted() { return promoted_; }

  /// Answers that were given. Who has one need not begin a look-up.
  [[nodiscard]] LookupAnswers& answers() { return answers_; }
  /// The key for as long as whose served plan stays what it is, the same request would be answered the same, with
  /// nothing to be done; nothing when there is none.
  [[nodiscard]] std::optional<db::PlanKey> key_to_keep(const api::LookupRequest& request,
                                                       const api::LookupAnswer& answer) const;

  /// Tunes a fragment in the background. `trials`: as of submit_model; nullopt: ServiceOptions::fragment_trials.
  /// Errors: invalid_argument (trials, and nothing measures), resource_exhausted when the queue is full.
  Result<api::Submitted> submit_fragment(const graph::Graph& fragment, std::string_view name,
                                         std::optional<std::int64_t> trials = {});
  /// Tunes a model file's fragments in the background; the bytes are kept until then. Its name tells the format where
  /// the contents do not. `trials`: of tune_model. Errors: invalid_argument (empty; trials, and nothing measures),
  /// resource_exhausted.
  Result<api::Submitted> submit_model(std::string bytes, std::string_view name, std::int64_t trials = 0,
                                      const graph::Constraints& constraints = {});

  /// An artifact was read and found damaged: lets the plans that are served with it be made again, each for the class
  /// of GPUs that it is for, which mends it, or withdraws them. The error for who asked: corrupt as `damage`, which is
  /// no sign that the server is gone, with the job that does it; `damage` itself when no plan needs the artifact.
  Error mend(const Sha256& artifact, const Error& damage);

  [[nodiscard]] Result<api::JobStatus> job(std::int64_t id) const;
  Result<api::JobStatus> cancel(std::int64_t id);

  /// The program of a model that was tuned here for the server's own target, with the plans that are served of its
  /// fragments at this moment; a fragment without one says why. `inside`: the code that comes with them. Errors:
  /// not_found (no such model, or its job has not ended); unavailable (damaged code, which a job makes again);
  /// constraint (more code than an answer may have); those of the store.
  Result<api::Program> program(const Sha256& model, api::CodeInside inside);
  /// The program of a model, or of a graph, that need not have been tuned, with the plans that are served of its
  /// fragments at this moment and without code. Nothing is stored, and nothing begun: who wants plans for the others
  /// looks them up. `products`: who multiplies matrices; the tuner's own choice if that is not said. `name` tells the
  /// format where the contents do not. Errors: those of import::import_bytes and tuning::outline_program; timeout (a
  /// minute), cancelled (the server stops); resource_exhausted (constants); those of the store.
  Result<api::Program> outline(std::string_view model, std::string_view name,
                               std::optional<tuning::ProductsBy> products = {},
                               const graph::Constraints& constraints = {});
  /// The program of a tuned model as it is sent, kept for as long as it is right.
  Result<ProgramAnswer> answer_program(const ProgramQuestion& question);

  /// What changed in what is served after sequence number `after`, at most 1000.
  [[nodiscard]] Result<api::PromotionFeed> promotions(std::int64_t after) const;

  [[nodiscard]] api::ServerVersion version() const;
  /// Prometheus text.
  [[nodiscard]] Result<std::string> metrics_text() const;
  [[nodiscard]] Metrics& metrics() { return metrics_; }
  [[nodiscard]] const db::Store& store() const { return store_; }

 private:
  Service(db::Store& store, const tuning::Tuner& tuner, const Clock& clock, std::unique_ptr<Planners> planners,
          ServiceOptions options);

  Result<std::optional<api::LookupAnswer>> find(const Planner& planner, const graph::CanonicalForm& form,
                                                api::LookupAnswer& answer) const;
  Result<std::optional<api::LookupAnswer>> find_stale(const Planner& planner, const api::LookupAnswer& answer,
                                                      const std::optional<api::LookupAnswer>& hit) const;
  Status confirm(const graph::CanonicalForm& form, const Sha256& stored) const;
  Status predict_and_store(const Planner& planner, const graph::Graph& canonical, const std::string& name,
                           const std::stop_token& stop);
  void improve_served(const Planner& planner, const graph::Graph& canonical, const std::string& name,
                      api::LookupAnswer& answer);
  Result<db::EnqueuedJob> enqueue_fragment(const Planner& planner, const graph::Graph& canonical, const Hash128& key,
                                           std::string_view name, std::int64_t trials);

  /// Trials need something that measures, which only the own planner may have.
  [[nodiscard]] std::int64_t trials_of(const Planner& planner) const { return planner.own ? fragment_trials_ : 0; }
  [[nodiscard]] bool failed_lately(const db::PlanKey& key) const;
  void note_failure(const db::PlanKey& key);
  Result<std::string> tune_fragment_job(const JobContext& context);
  Status tune_fragment(const Planner& planner, const JobContext& context, const Hash128& key, const std::string& name,
                       std::int64_t trials);
  Status tune_and_keep(const Planner& planner, const Hash128& key, tuning::PlanRequest request);
  void count_faults(const tuning::TrialRecords& trials);
  Status mend_plan(std::string_view device, const JobContext& context, const Hash128& fragment, const Hash128& plan);
  Result<std::string> tune_model_job(const JobContext& context);
  /// Stores the model's program, and tunes fragments of it that the model's own tuning does not have (what its caller
  /// gives away is no part of a program). That there is none, because of the model, is told as an event.
  Status make_program(const JobContext& context, const db::Upload& model, std::string_view name,
                      const graph::Constraints& constraints, const db::Workload& workload);
  /// Of its program, those that were not tried before.
  Status tune_fragments(const JobContext& context, const api::Program& program, std::string_view name,
                        std::set<Hash128>& tried);
  Status add_plan(api::ProgramFragment& fragment) const;
  Result<std::string> train_job(const JobContext& context);
  Result<std::string> prune_job();
  Status enqueue_chores();
  Status enqueue_training();
  Status enqueue_pruning();
  Status enqueue_chore(db::Job job);
  /// There may be a new job.
  void job_enqueued();

  db::Store& store_;
  const tuning::Tuner& tuner_;
  const Clock& clock_;
  std::unique_ptr<Planners> planners_;
  tuning::RememberingTuner* remembering_;  ///< of the own planner
  const std::int64_t started_us_;
  const std::int64_t remember_failure_us_;
  const std::int64_t fragment_trials_, keep_us_;
  std::atomic<std::int64_t> pruned_us_ = 0;  ///< when that was last done, in wall time
  std::mutex models_mutex_;                  ///< held from storing a model's file until there is a job for it
  Metrics metrics_;
  LookupAnswers answers_;
  ProgramAnswers programs_;
  tuning::CostModelTrainer trainer_;
  mutable std::mutex asked_mutex_;  ///< guards asked_ and failed_
  std::set<db::PlanKey> asked_;     ///< whose improvement was asked for on a hit, so that later hits write nothing
  std::map<db::PlanKey, std::int64_t> failed_;  ///< whose tuning failed, until when look-ups do not ask again
  ConstantBudget constants_{std::int64_t{256} << 20};
  Notifier changes_, promoted_;
  std::stop_source stopping_;  ///< of what is worked on while a caller waits
  JobRunner jobs_;
  SingleFlight predictions_;  ///< last but one: its threads use everything above
  StoreWatch watch_;
};

}  // namespace stitch::daemon
