#include "daemon/jobs/service.h"

#include <array>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/version.h"
#include "graph/codec/codec.h"
#include "tuning/models/model_tuning.h"
#include "tuning/plans/plan_record.h"

// Look-ups, submissions and what is known. The work of jobs is in daemon/jobs/service_jobs.cpp.
namespace stitch::daemon {
namespace {

using Json = nlohmann::json;

/// Claims without progress after which a job is given up. A daemon that is restarted often must not lose its jobs, and
/// one that a job brings down must come back: compilers and runners crash by themselves, so that a job that was seen to
/// end thirty daemons before its first step is to blame itself.
constexpr int most_stalled = 30;
constexpr std::size_t most_asked = 100'000;

constexpr std::array key_fields = {db::KeyField::fragment, db::KeyField::device, db::KeyField::architecture,
                                   db::KeyField::toolkit, db::KeyField::version};

/// What the closest stored plan has in common with the key, and what not.
void compare(const db::PlanKey& key, const db::Miss& miss, api::LookupAnswer& answer) {
  answer.matched.clear();
  answer.differed.clear();
  answer.closest_plan = miss.closest_plan;
  for (const db::KeyField field : miss.differs) answer.differed.emplace_back(to_string(field));
  if (!miss.closest) return;
  const db::Target &wanted = key.target, &found = miss.closest->target;
  const bool same[] = {miss.closest->fragment == key.fragment, found.device == wanted.device,
                       found.architecture == wanted.architecture, found.toolkit == wanted.toolkit,
                       found.version == wanted.version};
  for (std::size_t i = 0; i < key_fields.size(); ++i) {
    if (same[i]) answer.matched.emplace_back(to_string(key_fields[i]));
  }
}

/// What a job's work is about, and how many more trials it is worth.
void ask_for(std::int64_t trials, Json payload, db::Job& job) {
  if (trials > 0) {
    job.dedupe_key += fmt::format(" {} trials", trials);
    payload["trials"] = trials;
  }
  job.payload = payload.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// The same options, and what a job does to the store is told.
JobRunnerOptions telling(JobRunnerOptions options, Notifier& changes) {
  options.changed = [&changes] { changes.notify(); };
  return options;
}

Status can_try(std::int64_t trials, const tuning::Tuner& tuner) {
  if (trials <= 0 || tuner.measures()) return {};
  return make_error(ErrorKind::invalid_argument, "{} trials, and this server has no device that measures", trials);
}

}  // namespace

Service::Service(db::Store& store, const tuning::Tuner& tuner, const Clock& clock, std::unique_ptr<Planners> planners,
                 ServiceOptions options)
    : store_(store),
      tuner_(tuner),
      clock_(clock),
      planners_(std::move(planners)),
      remembering_(planners_->own().remembering.get()),
      started_us_(clock.now_us()),
      remember_failure_us_(options.remember_failure_us),
      fragment_trials_(options.fragment_trials),
      keep_us_(options.keep_us),
      answers_(store, options.answers),
      programs_(store, tuner.target().device),
      trainer_(store, tuner.target().device, clock, options.training),
      jobs_(store, clock, telling(options.jobs, changes_),
            {{std::string(fragment_job), [this](const JobContext& context) { return tune_fragment_job(context); }},
             {std::string(model_job), [this](const JobContext& context) { return tune_model_job(context); }},
             {std::string(training_job), [this](const JobContext& context) { return train_job(context); }},
             {std::string(pruning_job), [this](const JobContext&) { return prune_job(); }}}),
      predictions_(options.predictions, clock),
      watch_(store, changes_, promoted_) {}

Service::~Service() = default;

Result<std::unique_ptr<Service>> Service::create(db::Store& store, const tuning::Tuner& tuner, const Clock& clock,
                                                 ServiceOptions options) {
  STITCH_TRY(can_try(options.fragment_trials, tuner));
  STITCH_ASSIGN(auto planners, Planners::open(store, tuner, clock, options.make_tuner));
  const bool alone = options.alone;
  std::unique_ptr<Service> service(new Service(store, tuner, clock, std::move(planners), std::move(options)));
  STITCH_ASSIGN(const auto touched, store.requeue_orphans({.everyone = alone, .owner = ""}));
  return service;
}

void Service::start() {
  jobs_.start();
  // A new store has nothing to drop. One that cannot take the job now is asked again after the next one's work.
  const auto earlier = store_.list_jobs({}, {.limit = 1});
  if (earlier && !earlier->items.empty()) (void)enqueue_pruning().ok();
}

void Service::request_stop() {
  stopping_.request_stop();
  predictions_.request_stop();
  jobs_.request_stop();
}

Status Service::stop() {
  request_stop();
  return jobs_.stop();
}

// ---- look-ups

/// The served plan in `answer`'s copy, or nothing; then `answer` says what the closest one differs in.
Result<std::optional<api::LookupAnswer>> Service::find(const Planner& planner, const graph::CanonicalForm& form,
                                                       api::LookupAnswer& answer) const {
  const db::PlanKey key = planner.key_of(form.key);
  STITCH_ASSIGN(const db::Lookup found, store_.find_plan(key, form.family_key));
  if (found.graph) STITCH_TRY(confirm(form, *found.graph));
  if (!found.plan) {
    compare(key, found.miss, answer);
    return std::optional<api::LookupAnswer>();
  }
  api::LookupAnswer hit = answer;
  hit.source = api::LookupAnswer::Source::store;
  STITCH_ASSIGN(hit.plan, tuning::plan_from_record(*found.plan));
  hit.differed.clear();
  hit.matched.clear();
  hit.closest_plan.reset();
  for (const db::KeyField field : key_fields) hit.matched.emplace_back(to_string(field));
  return std::optional(std::move(hit));
}

/// The plan of another environment in a copy of `answer`, where it is better founded than `hit`. What is served stays
/// served when the toolkit or the generator changes: a kernel that was right is right.
Result<std::optional<api::LookupAnswer>> Service::find_stale(const Planner& planner, const api::LookupAnswer& answer,
                                                             const std::optional<api::LookupAnswer>& hit) const {
  const api::Plan* const own = hit ? &*hit->plan : nullptr;
  if (own != nullptr && planner.remembering->is_settled(*own)) return std::optional<api::LookupAnswer>();
  STITCH_ASSIGN(std::optional<api::Plan> plan, planner.remembering->stale(answer.fragment, own));
  if (!plan) return std::optional<api::LookupAnswer>();
  api::LookupAnswer stale = answer;
  stale.source = api::LookupAnswer::Source::store;
  stale.made_by = plan->target;
  db::Miss miss;
  miss.closest = db::PlanKey{plan->fragment, tuning::to_record(plan->target)};
  miss.closest_plan = plan->id;
  const db::Target& wanted = planner.target();
  if (miss.closest->target.version != wanted.version) miss.differs.push_back(db::KeyField::version);
  if (miss.closest->target.toolkit != wanted.toolkit) miss.differs.push_back(db::KeyField::toolkit);
  compare(planner.key_of(answer.fragment), miss, stale);
  stale.plan = *std::move(plan);
  return std::optional(std::move(stale));
}

/// Keys are no cryptographic hashes, and who asks has chosen what is hashed: what is stored under the key must be this
/// very graph. Put again, it is compared.
Status Service::confirm(const graph::CanonicalForm& form, const Sha256& stored) const {
  if (sha256(graph::encode(form.graph, graph::Encoding::cbor)) == stored) return {};
  STITCH_ASSIGN(const db::FragmentRecord fragment, tuner_.describe(form.graph, ""));
  return store_.put_fragment(fragment);
}

Result<std::variant<api::LookupAnswer, PendingLookup>> Service::begin_lookup(const api::LookupRequest& request,
                                                                             Notifier::Deadline arrived) {
  using Begun = std::variant<api::LookupAnswer, PendingLookup>;
  PendingLookup missed;
  STITCH_ASSIGN(missed.planner, planners_->of(request.device));
  const Planner& planner = *missed.planner;
  STITCH_ASSIGN(missed.constants, constants_.hold(request.fragment));
  STITCH_ASSIGN(missed.form, graph::canonicalise(request.fragment));
  const graph::CanonicalForm& form = missed.form;
  api::LookupAnswer& answer = missed.answer;
  answer.fragment = form.key;
  answer.family = form.family_key;
  answer.target = tuning::to_wire(planner.target());
  answer.parameter_order = form.parameter_order;
  answer.result_order = form.result_order;
  STITCH_ASSIGN(std::optional<api::LookupAnswer> hit, find(planner, form, answer));
  STITCH_ASSIGN(std::optional<api::LookupAnswer> stale, find_stale(planner, answer, hit));
  if (stale) hit = std::move(stale);
  const bool improves = request.improve && request.predict.value_or(true);
  if (hit) {
    if (improves && (hit->made_by || !planner.remembering->is_settled(*hit->plan)))
      improve_served(planner, form.graph, request.name, *hit);
    metrics_.count_lookup(hit->source);
    return Begun(*std::move(hit));
  }
  if (improves && !failed_lately(planner.key_of(form.key))) {
    // A full queue costs the improvement, not the answer.
    const auto job = enqueue_fragment(planner, form.graph, form.key, request.name, trials_of(planner));
    if (job) {
      answer.job = job->job.id;
      changes_.notify();
    }
    if (!job && job.error().kind != ErrorKind::resource_exhausted) return job.error();
  }
  if (!request.predict.value_or(true)) {
    if (!request.explain.value_or(false)) metrics_.count_miss();
    return Begun(std::move(answer));
  }
  missed.until = arrived + std::chrono::milliseconds(request.deadline_ms);
  const auto flight =
      predictions_.join(planner.key_of(form.key),
                        [this, &planner, graph = form.graph, name = request.name, held = missed.constants](
                            const std::stop_token& stop) { return predict_and_store(planner, graph, name, stop); });
  if (!flight) {
    metrics_.count_lookup(answer.source);
    return Begun(std::move(answer));
  }
  missed.flight = *flight;
  return Begun(std::move(missed));
}

Result<api::LookupAnswer> Service::end_lookup(const PendingLookup& lookup) {
  if (!lookup.flight.landed()) {
    metrics_.count_lookup(api::LookupAnswer::Source::pending);
    return lookup.answer;
  }
  if (const Status predicted = lookup.flight.get(); !predicted) {
    // What takes a prediction too long has a job with more time.
    if (predicted.error().kind != ErrorKind::timeout || !lookup.answer.job) return predicted.error();
    metrics_.count_lookup(api::LookupAnswer::Source::pending);
    return lookup.answer;
  }
  // The miss is what the caller is told of, with the plan that there is now.
  api::LookupAnswer answer = lookup.answer, after = lookup.answer;
  STITCH_ASSIGN(std::optional<api::LookupAnswer> served, find(*lookup.planner, lookup.form, after));
  // Withdrawn between prediction and now: it was found to be wrong, and nothing else is there yet.
  if (served) {
    answer.source = api::LookupAnswer::Source::predicted;
    answer.plan = std::move(served->plan);
  }
  metrics_.count_lookup(answer.source);
  return answer;
}

Result<api::LookupAnswer> Service::lookup(const api::LookupRequest& request) {
  STITCH_ASSIGN(const auto begun, begin_lookup(request));
  if (const auto* answer = std::get_if<api::LookupAnswer>(&begun)) return *answer;
  const auto& missed = std::get<PendingLookup>(begun);
  missed.flight.landing().wait(0, missed.until);
  return end_lookup(missed);
}

std::optional<db::PlanKey> Service::key_to_keep(const api::LookupRequest& request,
                                                const api::LookupAnswer& answer) const {
  // What another environment made is told of until there is a plan of this one's own.
  if (answer.source != api::LookupAnswer::Source::store || !answer.plan || answer.job || answer.made_by) return {};
  const Result<const Planner*> planner = planners_->of(request.device);
  if (!planner) return {};
  const db::PlanKey key = (*planner)->key_of(answer.fragment);
  if (!request.improve || (*planner)->remembering->is_settled(*answer.plan)) return key;
  const std::lock_guard lock(asked_mutex_);
  return asked_.contains(key) ? std::optional(key) : std::nullopt;  // else the next look-up asks again
}

Status Service::predict_and_store(const Planner& planner, const graph::Graph& canonical, const std::string& name,
                                  const std::stop_token& stop) {
  STITCH_ASSIGN(const tuning::TunedFragment predicted,
                planner.remembering->predict({.fragment = canonical, .name = name, .stop = stop}));
  const Status stored = planner.remembering->keep(predicted);
  job_enqueued();  // tuning waits for this, so that it does not slow down what a client waits for
  return stored;
}

/// A plan is served that nobody has verified, or that another environment made, and perhaps no job is left that will
/// make a better one. What keeps the job from being made
/// (a full queue or disk, a store that is locked) costs the improvement, not the answer; the next look-up asks again.
void Service::improve_served(const Planner& planner, const graph::Graph& canonical, const std::string& name,
                             api::LookupAnswer& answer) {
  const db::PlanKey key = planner.key_of(answer.fragment);
  {
    const std::lock_guard lock(asked_mutex_);
    if (asked_.size() >= most_asked) asked_.clear();
    if (!asked_.insert(key).second) return;
  }
  const auto job = enqueue_fragment(planner, canonical, answer.fragment, name, trials_of(planner));
  if (!job) {
    const std::lock_guard lock(asked_mutex_);
    asked_.erase(key);
    return;
  }
  answer.job = job->job.id;
  job_enqueued();
}

bool Service::failed_lately(const db::PlanKey& key) const {
  const std::lock_guard lock(asked_mutex_);
  const auto failure = failed_.find(key);
  return failure != failed_.end() && clock_.now_us() < failure->second;
}

void Service::note_failure(const db::PlanKey& key) {
  const std::lock_guard lock(asked_mutex_);
  if (failed_.size() >= most_asked) failed_.clear();
  failed_[key] = clock_.now_us() + remember_failure_us_;
}

// ---- jobs

Result<db::EnqueuedJob> Service::enqueue_fragment(const Planner& planner, const graph::Graph& canonical,
                                                  const Hash128& key, std::string_view name, std::int64_t trials) {
  STITCH_ASSIGN(const db::FragmentRecord fragment, planner.tuner.describe(canonical, name));
  STITCH_TRY(store_.put_fragment(fragment));
  const db::Target& target = planner.target();
  db::Job job;
  job.kind = fragment_job;
  job.dedupe_key = fmt::format("{} {} {} {} {} {}", fragment_job, key.hex(), target.device, target.architecture,
                               target.toolkit, target.version);
  Json payload = {{"fragment", key.hex()}, {"name", name}};
  if (!planner.own) payload["device"] = target.device;
  ask_for(trials, std::move(payload), job);
  job.max_stalled = most_stalled;
  job.provenance = remembering_->provenance("asked for by a client");
  return store_.enqueue_job(job);
}

Error Service::mend(const Sha256& artifact, const Error& damage) {
  db::PlanFilter served;
  served.status = db::PlanStatus::incumbent;
  served.artifact = artifact;
  const auto plans = store_.list_plans(served, {});
  std::optional<std::int64_t> making;
  for (const db::PlanRecord& plan : plans ? plans->items : std::vector<db::PlanRecord>()) {
    db::Job job;
    job.kind = fragment_job;
    job.dedupe_key = fmt::format("mend {}", plan.id.hex());
    Json payload = {{"fragment", plan.key.fragment.hex()}, {"name", ""}, {"mend", plan.id.hex()}};
    // That of another environment is served here as well, until there is one of this one's.
    const db::Target &made_for = plan.key.target, &own = planners_->own().target();
    if (made_for.device != own.device || made_for.architecture != own.architecture) payload["device"] = made_for.device;
    job.payload = payload.dump();
    job.priority = 1;  // clients cannot run what they were told to
    job.max_stalled = most_stalled;
    job.provenance = remembering_->provenance("an artifact was damaged");
    if (const auto enqueued = store_.enqueue_job(job)) making = enqueued->job.id;
  }
  if (!making) return damage;
  job_enqueued();
  return make_error(ErrorKind::corrupt, "{}; job {} makes it again", damage.message, *making);
}

void Service::job_enqueued() {
  jobs_.wake();
  changes_.notify();
}

/// What is done when there is nothing to tune; it can wait for room in the queue, too.
Status Service::enqueue_chore(db::Job job) {
  job.priority = -1;
  job.max_stalled = most_stalled;
  const auto enqueued = store_.enqueue_job(job);
  if (!enqueued) return enqueued.error().kind == ErrorKind::resource_exhausted ? Status() : Status(enqueued.error());
  job_enqueued();
  return {};
}

/// Once a day.
Status Service::enqueue_pruning() {
  constexpr std::int64_t every_us = std::chrono::microseconds(std::chrono::days(1)).count();
  if (keep_us_ == 0 || clock_.wall_us() - pruned_us_ < every_us) return {};
  db::Job job;
  job.kind = pruning_job;
  job.dedupe_key = pruning_job;
  job.provenance = remembering_->provenance("a day has passed");
  return enqueue_chore(std::move(job));
}

/// Cost models, when measurements have grown.
Status Service::enqueue_training() {
  STITCH_ASSIGN(const bool due, trainer_.is_due());
  if (!due) return {};
  db::Job job;
  job.kind = training_job;
  job.dedupe_key = fmt::format("{} {}", training_job, tuner_.target().device);
  job.provenance = remembering_->provenance("measurements have grown");
  return enqueue_chore(std::move(job));
}

Result<api::Submitted> Service::submit_fragment(const graph::Graph& fragment, std::string_view name,
                                                std::optional<std::int64_t> trials) {
  STITCH_TRY(can_try(trials.value_or(0), tuner_));
  STITCH_ASSIGN(const graph::CanonicalForm form, graph::canonicalise(fragment));
  STITCH_ASSIGN(const db::EnqueuedJob job,
                enqueue_fragment(planners_->own(), form.graph, form.key, name, trials.value_or(fragment_trials_)));
  job_enqueued();
  return api::Submitted{job.job.id, job.joined, form.key.hex()};
}

Result<api::Submitted> Service::submit_model(std::string bytes, std::string_view name, std::int64_t trials,
                                             const graph::Constraints& constraints) {
  if (bytes.empty()) return make_error(ErrorKind::invalid_argument, "the model is empty");
  STITCH_TRY(can_try(trials, tuner_));
  const db::Target& target = tuner_.target();
  const Sha256 name_of_bytes = sha256(bytes);
  const Sha256 subject = tuning::workload_key(bytes, constraints);
  const db::Upload model{name_of_bytes, std::move(bytes), remembering_->provenance("from a client")};
  db::Job job;
  job.kind = model_job;
  job.dedupe_key = fmt::format("{} {} {} {} {} {}", model_job, model.hash.hex(), target.device, target.architecture,
                               target.toolkit, target.version);
  Json payload = {{"model", model.hash.hex()}, {"name", name}};
  if (constraints.any()) {
    job.dedupe_key += fmt::format(" {}", to_string(constraints));
    payload["constraints"] = to_string(constraints);
  }
  ask_for(trials, std::move(payload), job);
  job.max_stalled = most_stalled;
  job.provenance = model.provenance;
  const std::lock_guard lock(models_mutex_);
  STITCH_TRY(store_.put_upload(model));
  STITCH_ASSIGN(const db::EnqueuedJob enqueued, store_.enqueue_job(job));
  job_enqueued();
  return api::Submitted{enqueued.job.id, enqueued.joined, subject.hex()};
}

Result<api::JobStatus> Service::job(std::int64_t id) const {
  STITCH_ASSIGN(const db::Job job, store_.get_job(id));
  return tuning::to_wire(job);
}

Result<api::JobStatus> Service::cancel(std::int64_t id) {
  STITCH_ASSIGN(const db::Job job, store_.cancel_job(id));
  jobs_.cancelled(id);
  changes_.notify();
  return tuning::to_wire(job);
}

// ---- what is known

Result<api::PromotionFeed> Service::promotions(std::int64_t after) const {
  STITCH_ASSIGN(const auto listing, store_.list_promotions({.limit = 1000, .after = after}));
  api::PromotionFeed feed;
  feed.last = after;
  for (const db::Promotion& promotion : listing.items) {
    feed.promotions.push_back({promotion.sequence, promotion.key.fragment, tuning::to_wire(promotion.key.target),
                               promotion.plan, promotion.previous, promotion.reason});
    feed.last = promotion.sequence;
  }
  return feed;
}

api::ServerVersion Service::version() const {
  return {std::string(tool_version), api::protocol_version, tuning::to_wire(tuner_.target()),
          tuner_.judges().front().key};
}

Result<std::string> Service::metrics_text() const {
  Gauges gauges;
  STITCH_ASSIGN(gauges.store, store_.statistics());
  gauges.jobs_here = jobs_.running();
  gauges.answers = answers_.counts();
  gauges.work = planners_->work();
  gauges.predictions_under_way = predictions_.under_way();
  gauges.uptime_seconds = (clock_.now_us() - started_us_) * 1e-6;
  gauges.version = tool_version;
  return metrics_.text(gauges);
}

}  // namespace stitch::daemon
