#include <set>

#include "base/time_budget.h"
#include "daemon/jobs/service.h"
#include "tuning/plans/plan_record.h"
#include "tuning/programs/model_program.h"

// Programs of whole models: their structure is made and stored when a model is tuned, their plans are those that are
// served of its fragments when somebody asks.
namespace stitch::daemon {
namespace {

/// Of all code in one answer; whoever needs more fetches it by its hashes.
constexpr std::int64_t most_code = std::int64_t{256} << 20;

/// Of outlining a model, which holds one of the threads that answer.
constexpr double longest_outline_s = 60;

}  // namespace

Status Service::make_program(const JobContext& context, const db::Upload& model, std::string_view name,
                             const graph::Constraints& constraints, const db::Workload& workload) {
  import::ImportOptions asked;
  asked.constraints = constraints;
  STITCH_ASSIGN(import::Imported imported, import::import_bytes(model.bytes, name, asked));
  const tuning::ProgramRequest request{
      .name = name, .source = sha256(model.bytes), .tunes = true, .memory = remembering_, .stop = context.stop()};
  std::set<Hash128> tried;
  for (const db::Workload::Part& part : workload.parts) tried.insert(part.fragment);
  const auto report = [&](const tuning::Progress& progress) { context.report(progress); };
  // Plans of products are made, and the library's calls measured beside them, until nobody's time changes the program,
  // and no product is without a plan: where one step has none, no step is launched on a stream.
  tuning::ProductChoices choices(tuner_, remembering_, {}, true, context.stop());
  while (true) {
    const auto program = tuning::outline_program(imported, tuner_, request, choices);
    if (context.stop().stop_requested())
      return make_error(ErrorKind::cancelled, "stopped while the program of {} was made", name);
    if (!program) {
      context.report({"program", 1, fmt::format("no program: {}", program.error().message)});
      return {};
    }
    STITCH_TRY(tune_fragments(context, *program, name, tried));
    api::Program planned = *program;
    for (api::ProgramFragment& fragment : planned.fragments) STITCH_TRY(add_plan(fragment));
    STITCH_ASSIGN(const bool again, choices.settle(planned, report));
    if (again) continue;
    metrics_.count_program();
    return store_.put_program({workload.key, program->id, tuner_.target().device, std::string(name),
                               api::encode_program(*program, graph::Encoding::cbor),
                               remembering_->provenance("generated")});
  }
}

Status Service::tune_fragments(const JobContext& context, const api::Program& program, std::string_view name,
                               std::set<Hash128>& tried) {
  for (const api::ProgramFragment& fragment : program.fragments) {
    if (!tried.insert(fragment.key).second || remembering_->is_settled(fragment.key)) continue;
    const Status tuned = tune_and_keep(planners_->own(), fragment.key,
                                       {.fragment = fragment.graph, .name = name, .stop = context.stop()});
    if (context.stop().stop_requested()) return make_error(ErrorKind::cancelled, "stopped while tuning {}", name);
    using enum ErrorKind;
    const auto is_stores = [](ErrorKind kind) {
      return kind == io || kind == resource_exhausted || kind == corrupt || kind == timeout;
    };
    if (!tuned && is_stores(tuned.error().kind)) return tuned;
    if (!tuned) context.report({"program", 1, fmt::format("no plan: {}", tuned.error().message)});
  }
  return {};
}

Status Service::add_plan(api::ProgramFragment& fragment) const {
  STITCH_ASSIGN(const bool same, remembering_->is_stored_as(fragment.key, fragment.graph));
  if (!same) {
    fragment.why_none = "another graph is stored under this key, which no two graphs have by chance";
    return {};
  }
  STITCH_ASSIGN(fragment.plan, remembering_->plan_of(fragment.key));
  fragment.why_none = fragment.plan ? "" : "no plan is served for it";
  return {};
}

Result<api::Program> Service::program(const Sha256& model, api::CodeInside inside) {
  STITCH_ASSIGN(const db::ProgramRecord record, store_.get_program(model, tuner_.target().device));
  auto program = api::decode_program(record.document, graph::Encoding::cbor);
  if (!program) return Error{ErrorKind::corrupt, program.error().message}.within("stored program");
  program->target = tuning::to_wire(tuner_.target());
  std::set<Sha256> known;
  std::int64_t code = 0;
  for (api::ProgramFragment& fragment : program->fragments) {
    STITCH_TRY(add_plan(fragment));
    if (!fragment.plan) continue;
    for (const Sha256& hash : api::code_of(*fragment.plan, inside)) {
      if (!known.insert(hash).second) continue;
      auto artifact = store_.get_artifact(hash);
      if (!artifact && artifact.error().kind == ErrorKind::corrupt) return mend(hash, artifact.error());
      if (!artifact) return artifact.error();
      code += std::ssize(artifact->bytes);
      if (code > most_code) {
        return make_error(ErrorKind::constraint, "program of {}: more than {} bytes of code; fetch it by its hashes",
                          record.name, most_code);
      }
      program->artifacts.push_back({hash, std::move(artifact->bytes)});
    }
  }
  return program;
}

Result<api::Program> Service::outline(std::string_view model, std::string_view name,
                                      std::optional<tuning::ProductsBy> products,
                                      const graph::Constraints& constraints) {
  if (model.empty()) return make_error(ErrorKind::invalid_argument, "the model is empty");
  const TimeBudget budget(longest_outline_s, stopping_.get_token());
  STITCH_ASSIGN(import::Imported imported, import::import_bytes(model, name));
  imported.graph.constraints = imported.graph.constraints | constraints;
  STITCH_ASSIGN(const ConstantBudget::Hold constants, constants_.hold(imported.graph));
  auto program = tuning::outline_program(
      std::move(imported), tuner_,
      {.name = name, .source = sha256(model), .memory = remembering_, .stop = budget.token(), .products = products});
  if (!program && program.error().kind == ErrorKind::cancelled && !stopping_.stop_requested()) {
    return make_error(ErrorKind::timeout,
                      "outlining {} takes more than {} s; POST /v1/models does it in the background", name,
                      longest_outline_s);
  }
  if (!program) return program;
  metrics_.count_program();
  for (api::ProgramFragment& fragment : program->fragments) STITCH_TRY(add_plan(fragment));
  return program;
}

Result<ProgramAnswer> Service::answer_program(const ProgramQuestion& question) {
  if (auto kept = programs_.find(question)) return *std::move(kept);
  const auto begun = store_.version();
  STITCH_ASSIGN(const api::Program made, program(question.model, question.code));
  ProgramAnswer answer;
  answer.body = std::make_shared<const std::string>(api::encode_program(made, question.encoding));
  answer.tag = sha256(*answer.body).hex();
  std::vector<db::PlanKey> plans;
  for (const api::ProgramFragment& fragment : made.fragments) plans.push_back({fragment.key, tuner_.target()});
  programs_.keep(question, begun, plans, answer);
  return answer;
}

}  // namespace stitch::daemon
