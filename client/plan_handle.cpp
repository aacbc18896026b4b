#include "client/plan_handle.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>

#include "base/tally.h"
#include "client/trace/plan_trace.h"
#include "graph/canonical.h"

namespace stitch::client {
namespace {

/// Puts the caller's buffers into the plan's order.
template <class T>
Result<std::vector<T>> arrange(std::span<const T> given, const std::vector<int>& order, std::string_view what) {
  if (given.size() != order.size()) {
    return make_error(ErrorKind::invalid_argument, "{} {}s were given, the fragment has {}", given.size(), what,
                      order.size());
  }
  std::vector<T> arranged;
  arranged.reserve(order.size());
  for (const int index : order) arranged.push_back(given[index]);
  return arranged;
}

/// What a plan allows to lie in one place, in the fragment's order.
std::vector<api::InPlace> in_place_of(const api::LookupAnswer& answer) {
  std::vector<api::InPlace> pairs;
  for (const api::InPlace& pair : answer.plan->in_place)
    pairs.push_back({answer.parameter_order[pair.parameter], answer.result_order[pair.result]});
  return pairs;
}

std::vector<graph::TensorType> types_of(const graph::Graph& graph, bool parameters) {
  std::vector<graph::TensorType> types;
  if (parameters) {
    for (const graph::NodeId id : graph.parameters()) types.push_back(graph.node(id).type());
  } else {
    for (const graph::Value value : graph.results()) types.push_back(graph.type(value));
  }
  return types;
}

/// The same options, for the GPU that the executor runs on unless they name one.
FetchOptions for_device(FetchOptions options, const Executor& executor) {
  if (!options.device) options.device = executor.traits();
  return options;
}

}  // namespace

PlanHandle::PlanHandle(Client& client, Executor& executor, graph::Graph fragment, FetchOptions options)
    : client_(client),
      executor_(executor),
      fragment_(std::move(fragment)),
      options_(for_device(std::move(options), executor)) {}

PlanHandle::~PlanHandle() = default;

Result<std::unique_ptr<PlanHandle>> PlanHandle::fetch(Client& client, Executor& executor, graph::Graph fragment,
                                                      FetchOptions options) {
  std::unique_ptr<PlanHandle> handle(new PlanHandle(client, executor, std::move(fragment), std::move(options)));
  STITCH_ASSIGN(api::LookupAnswer answer, client.fetch(handle->fragment_, handle->options_));
  handle->key_ = answer.fragment;
  handle->target_ = answer.target;
  handle->seen_ = answer.plan->sequence;
  handle->in_place_ = in_place_of(answer);
  STITCH_ASSIGN(handle->in_use_, handle->load(std::move(answer)));
  handle->latest_ = handle->in_use_->loaded->plan();
  if (handle->options_.plan) {  // by its id the server gives plans that it withdrew, too
    STITCH_TRY(handle->update(0));
    if (!handle->in_use_) return make_error(ErrorKind::unavailable, "{}", handle->why_none_);
  }
  return handle;
}

Status PlanHandle::check_workspace(const api::Plan& plan) const {
  if (!options_.max_workspace_bytes || plan.workspace_bytes <= *options_.max_workspace_bytes) return {};
  return make_error(ErrorKind::constraint, "plan {} needs {} bytes of workspace, max_workspace_bytes is {}",
                    plan.id.hex(), plan.workspace_bytes, *options_.max_workspace_bytes);
}

/// Who runs the plan may have relied on what the first one allowed, for as long as the handle is there.
Status PlanHandle::check_in_place(const api::LookupAnswer& answer) const {
  const std::vector<api::InPlace> allowed = in_place_of(answer);
  for (const api::InPlace& pair : in_place_) {
    if (std::ranges::find(allowed, pair) == allowed.end())
      return make_error(ErrorKind::constraint, "plan {} does not allow result {} to lie where parameter {} does",
                        answer.plan->id.hex(), pair.result, pair.parameter);
  }
  return {};
}

Result<std::shared_ptr<PlanHandle::InUse>> PlanHandle::load(api::LookupAnswer answer) {
  STITCH_TRY(check_workspace(*answer.plan));
  STITCH_TRY(check_in_place(answer));
  auto next = std::make_shared<InUse>();
  STITCH_ASSIGN(next->loaded,
                executor_.load(*answer.plan, [this](const Sha256& hash) { return client_.artifact(hash); }));
  next->parameter_order = std::move(answer.parameter_order);
  next->result_order = std::move(answer.result_order);
  return next;
}

Status PlanHandle::run(Inputs parameters, Outputs results) {
  const std::lock_guard lock(run_mutex_);
  if (!in_use_) return make_error(ErrorKind::unavailable, "{}", why_none_);
  STITCH_ASSIGN(const auto inputs, arrange(parameters, in_use_->parameter_order, "parameter"));
  STITCH_ASSIGN(const auto outputs, arrange(results, in_use_->result_order, "result"));
  const auto phase = first_launch(in_use_->launched, in_use_->loaded->plan().id, "host memory");
  return in_use_->loaded->run(inputs, outputs);
}

Status PlanHandle::launch(Addresses parameters, Addresses results, void* stream) {
  const std::lock_guard lock(run_mutex_);
  if (!in_use_) return make_error(ErrorKind::unavailable, "{}", why_none_);
  STITCH_ASSIGN(const auto inputs, arrange(parameters, in_use_->parameter_order, "parameter"));
  STITCH_ASSIGN(const auto outputs, arrange(results, in_use_->result_order, "result"));
  const auto phase = first_launch(in_use_->launched, in_use_->loaded->plan().id, "stream");
  return in_use_->loaded->launch(inputs, outputs, stream);
}

api::Plan PlanHandle::plan() const {
  const std::lock_guard lock(run_mutex_);
  return latest_;
}

Result<api::Program> PlanHandle::program() const {
  std::shared_ptr<InUse> in_use;
  {
    const std::lock_guard lock(run_mutex_);
    if (!in_use_) return make_error(ErrorKind::unavailable, "{}", why_none_);
    in_use = in_use_;
  }
  const api::Plan& plan = in_use->loaded->plan();
  STITCH_ASSIGN(graph::CanonicalForm form, graph::canonicalise(fragment_));
  if (form.parameter_order != in_use->parameter_order || form.result_order != in_use->result_order)
    return make_error(ErrorKind::internal, "plan {}: its order is not that of the canonical graph", plan.id.hex());
  form.graph.constraints = fragment_.constraints | options_.constraints;

  api::Program program;
  api::ProgramRegion& region = program.regions.emplace_back();
  api::ProgramStep step{options_.name, {}, {}, plan.bytes, api::FragmentStep{0}};
  const auto add = [&](const graph::TensorType& type, api::ProgramValue::Storage storage, std::vector<int>& places,
                       std::vector<api::ProgramPort>& ports) {
    const int number = static_cast<int>(region.values.size());
    region.values.push_back({type, {}, storage, std::ssize(places)});
    places.push_back(number);
    ports.push_back({{}, type, {}, {}});
  };
  for (const graph::TensorType& type : parameters())
    add(type, api::ProgramValue::Storage::parameter, region.parameters, program.parameters);
  for (const graph::TensorType& type : results())
    add(type, api::ProgramValue::Storage::result, region.results, program.results);
  for (const int place : form.parameter_order) step.parameters.push_back(region.parameters[place]);
  for (const int place : form.result_order) step.results.push_back(region.results[place]);
  region.steps.push_back(std::move(step));
  program.model = options_.name;
  program.target = plan.target;
  program.fragments.push_back({key_, std::move(form.graph), 1, plan, {}});
  for (const Sha256& hash : api::code_of(plan)) {
    STITCH_ASSIGN(std::string bytes, client_.artifact(hash));
    program.artifacts.push_back({hash, std::move(bytes)});
  }
  program.id = api::identity_of(program);
  return program;
}

bool PlanHandle::stale() const { return plan().target != target_; }

std::vector<graph::TensorType> PlanHandle::parameters() const { return types_of(fragment_, true); }
std::vector<graph::TensorType> PlanHandle::results() const { return types_of(fragment_, false); }

int PlanHandle::swaps() const {
  const std::lock_guard lock(run_mutex_);
  return swaps_;
}

void PlanHandle::put_in_use(std::shared_ptr<InUse> next, std::string why_none) {
  const std::lock_guard lock(run_mutex_);
  if (next) {
    const api::Plan& plan = next->loaded->plan();
    tally::count("swaps");
    trace::event("swap", {{"fragment", key_.hex()},
                          {"from", latest_.id.hex()},
                          {"plan", plan.id.hex()},
                          {"label", plan.label},
                          {"predicted_us", plan.predicted_us}});
  } else {
    tally::count("withdrawn");
    trace::event("withdrawn", {{"fragment", key_.hex()}, {"plan", latest_.id.hex()}, {"reason", why_none}});
  }
  if (in_use_) replaced_.push_back(std::move(in_use_));
  in_use_ = std::move(next);
  why_none_ = std::move(why_none);
  if (in_use_) {
    latest_ = in_use_->loaded->plan();
    ++swaps_;
  }
}

/// The plan in use was found to be wrong: another one, or none until there is one.
Result<bool> PlanHandle::replace_withdrawn(const api::PromotionNotice& notice) {
  api::LookupAnswer answer;
  if (!options_.plan) {
    api::LookupRequest request = request_for(fragment_, options_);
    request.deadline_ms = 0;
    STITCH_ASSIGN(answer, client_.look_up(request));
  }
  if (!answer.plan || answer.plan->id == *notice.previous) {
    put_in_use(nullptr, fmt::format("plan {} was withdrawn: {}", notice.previous->hex(), notice.reason));
    return false;
  }
  Result<std::shared_ptr<InUse>> next = load(std::move(answer));
  if (!next && next.error().kind == ErrorKind::constraint) {  // no plan rather than the wrong one
    put_in_use(nullptr, fmt::format("plan {} was withdrawn: {}; {}", notice.previous->hex(), notice.reason,
                                    next.error().message));
    return false;
  }
  if (!next) return next.error();
  put_in_use(std::move(*next));
  return true;
}

Result<bool> PlanHandle::update(std::int64_t wait_ms) {
  const std::lock_guard lock(update_mutex_);
  STITCH_ASSIGN(const api::PromotionFeed feed, client_.promotions(seen_, wait_ms));
  const Hash128 current = plan().id;
  // One look at the feed may see several changes, and what is withdrawn need not be what was promoted last.
  const api::PromotionNotice* withdrawal = nullptr;
  std::optional<Hash128> promoted;
  for (const api::PromotionNotice& notice : feed.promotions) {
    if (!notice.plan && notice.previous == current) withdrawal = &notice;  // of whatever environment made it
    if (options_.plan || notice.fragment != key_ || notice.target != target_) continue;
    if (notice.plan || notice.previous == promoted) promoted = notice.plan;
  }
  bool swapped = false;
  if (withdrawal != nullptr) {
    STITCH_ASSIGN(swapped, replace_withdrawn(*withdrawal));
  } else if (promoted && *promoted != current) {
    STITCH_ASSIGN(api::LookupAnswer answer, client_.fetch(fragment_, options_));
    if (answer.plan->id != current && check_workspace(*answer.plan) && check_in_place(answer)) {
      STITCH_ASSIGN(auto next, load(std::move(answer)));
      put_in_use(std::move(next));
      swapped = true;
    }
  }
  seen_ = feed.last;  // only now: what failed is tried again
  return swapped;
}

Result<bool> PlanHandle::check_for_update(std::int64_t wait_ms) {
  using namespace std::chrono;
  const auto until = steady_clock::now() + milliseconds(wait_ms);
  while (true) {
    const auto left = duration_cast<milliseconds>(until - steady_clock::now()).count();
    const Result<bool> swapped = update(std::clamp<std::int64_t>(left, 0, 60'000));
    if (!swapped || *swapped || steady_clock::now() >= until) return swapped;
  }
}

void PlanHandle::watch(std::function<void(const Status&)> told) {
  watcher_ = std::jthread([this, told = std::move(told)](const std::stop_token& stop) {
    constexpr std::int64_t poll_ms = 500;  // bounds how long the end of the handle waits for this thread
    std::mutex mutex;
    std::condition_variable_any rest;
    while (!stop.stop_requested()) {
      const Result<bool> swapped = update(poll_ms);
      if (told && !stop.stop_requested() && (!swapped || *swapped)) {
        told(swapped ? Status() : Status(swapped.error()));
      }
      if (swapped) continue;
      std::unique_lock lock(mutex);
      rest.wait_for(lock, stop, std::chrono::seconds(1), [] { return false; });
    }
  });
}

}  // namespace stitch::client
