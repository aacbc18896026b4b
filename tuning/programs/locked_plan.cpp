#include "tuning/programs/locked_plan.h"

#include <map>
#include <set>

#include "tuning/plans/plan_record.h"

namespace stitch::tuning {
namespace {

/// Images of the launches out of what was made. Every launch's code is among the artifacts of its bundle.
ServedPlan served_from(TunedFragment made) {
  std::map<Sha256, std::string*> bytes;
  for (db::Artifact& artifact : made.bundle.artifacts) bytes.emplace(artifact.hash, &artifact.bytes);
  ServedPlan plan;
  for (const api::KernelLaunch& launch : made.plan.launches) {
    plan.images.push_back({launch.name, *bytes.at(launch.ptx), *bytes.at(launch.cubin), made.plan.target.architecture});
  }
  plan.plan = std::move(made.plan);
  return plan;
}

/// Why a plan of the lock's id is not the one that is wanted; empty: it is.
std::string misfit(const api::Plan& plan, const api::LockedFragment& locked, const api::PlanTarget& target) {
  if (plan.fragment != locked.key) return fmt::format("it is one of fragment {}", plan.fragment.hex());
  if (plan.target != target) {
    return fmt::format("it is for {} {} {} {}", plan.target.device, plan.target.architecture, plan.target.toolkit,
                       plan.target.version);
  }
  if (api::code_of(plan) != locked.code) return "its code is not what the lock says";
  return {};
}

Result<TunedFragment> make_again(const LockedPlanSource& source, const api::LockedFragment& locked,
                                 const graph::Graph& fragment) {
  const std::set<Sha256> code(locked.code.begin(), locked.code.end());
  STITCH_ASSIGN(TunedFragment made, source.tuner.predict({.fragment = fragment, .code = &code, .stop = source.stop}));
  if (made.plan.id != *locked.plan)
    return make_error(ErrorKind::constraint, "of that code plan {} is made here", made.plan.id.hex());
  return made;
}

bool is_of_the_machine(ErrorKind kind) {
  return kind == ErrorKind::cancelled || kind == ErrorKind::unavailable || kind == ErrorKind::io;
}

}  // namespace

Result<ServedPlan> locked_plan(const LockedPlanSource& source, const api::LockedFragment& locked,
                               const graph::Graph& fragment) {
  const auto refused = [&](std::string_view why) {
    return make_error(ErrorKind::constraint, "line {} of the lock: plan {} of fragment {}: {}", locked.line,
                      locked.plan->hex(), locked.key.hex(), why);
  };
  if (source.memory != nullptr) {
    Result<std::optional<ServedPlan>> stored = source.memory->stored(*locked.plan);
    if (!stored && stored.error().kind == ErrorKind::constraint) return refused(stored.error().message);
    if (!stored) return stored.error();
    if (*stored) {
      const std::string wrong = misfit((*stored)->plan, locked, to_wire(source.tuner.target()));
      return wrong.empty() ? Result<ServedPlan>(**std::move(stored)) : refused(wrong);
    }
  }
  Result<TunedFragment> made = make_again(source, locked, fragment);
  if (!made) {
    if (is_of_the_machine(made.error().kind)) return made.error();
    return refused(fmt::format("{}, and it cannot be made again: {}",
                               source.memory == nullptr ? "no database was asked" : "it is not stored",
                               made.error().message));
  }
  if (source.memory != nullptr) STITCH_TRY(source.memory->keep(*made));
  return served_from(*std::move(made));
}

}  // namespace stitch::tuning
