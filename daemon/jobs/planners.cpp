#include "daemon/jobs/planners.h"

#include "base/device_class.h"

namespace stitch::daemon {

Result<std::unique_ptr<Planners>> Planners::open(db::Store& store, const tuning::Tuner& tuner, const Clock& clock,
                                                 MakeTuner make) {
  STITCH_ASSIGN(auto remembering, tuning::RememberingTuner::open(store, tuner, clock));
  return std::unique_ptr<Planners>(new Planners(store, clock, std::move(make), {tuner, std::move(remembering), true}));
}

Result<const Planner*> Planners::of(const std::optional<DeviceTraits>& device) {
  if (!device) return &own_;
  STITCH_ASSIGN(const DeviceClass wanted, classify(*device));
  // A server that compiles for another architecture than its target's serves its own clients only.
  if (wanted.spec.name == own_.target().device && wanted.spec.architecture() == own_.target().architecture)
    return &own_;
  return other(wanted.spec);
}

Result<const Planner*> Planners::named(std::string_view device) {
  if (device.empty()) return &own_;
  STITCH_ASSIGN(const DeviceClass wanted, find_device_class(device));
  return other(wanted.spec);
}

tuning::WorkCounts Planners::work() const {
  tuning::WorkCounts work = own_.tuner.work();
  const std::lock_guard lock(mutex_);
  for (const auto& [name, other] : others_) work += other.tuner->work();
  return work;
}

Result<const Planner*> Planners::other(const DeviceSpec& spec) {
  if (!make_) {
    return make_error(ErrorKind::unsupported, "this server plans for {} {} only, not for {}", own_.target().device,
                      own_.target().architecture, spec.name);
  }
  const std::lock_guard lock(mutex_);
  if (const auto known = others_.find(spec.name); known != others_.end()) return known->second.planner.get();
  if (others_.size() >= most_others) {
    return make_error(ErrorKind::resource_exhausted, "this server plans for {} classes of GPUs beside its own already",
                      others_.size());
  }
  Other made;
  STITCH_ASSIGN(made.tuner, make_(spec));
  STITCH_ASSIGN(auto remembering, tuning::RememberingTuner::open(store_, *made.tuner, clock_));
  made.planner = std::unique_ptr<Planner>(new Planner{*made.tuner, std::move(remembering), false});
  return others_.emplace(spec.name, std::move(made)).first->second.planner.get();
}

}  // namespace stitch::daemon
