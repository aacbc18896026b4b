#include "client/emulated_executor.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/tally.h"
#include "base/trace.h"

namespace stitch::client {
namespace {

using api::LaunchArgument;
using profiler::BufferHandle;

/// A buffer that starts as a copy of host memory.
profiler::Filler contents(std::span<const std::byte> from) {
  return [from](std::uint64_t offset, std::span<std::byte> bytes) {
    std::memcpy(bytes.data(), from.data() + offset, bytes.size());
  };
}

class EmulatedPlan final : public LoadedPlan {
 public:
  EmulatedPlan(api::Plan plan, std::unique_ptr<profiler::Session> session)
      : plan_(std::move(plan)), session_(std::move(session)) {}

  [[nodiscard]] const api::Plan& plan() const override { return plan_; }
  Status load_kernels(const ArtifactSource& artifacts);
  Status make_workspace();
  Status run(Inputs parameters, Outputs results) override;
  Status launch(Addresses, Addresses, void*) override {
    return make_error(ErrorKind::unsupported, "the emulated device runs on host memory only");
  }

 private:
  struct Buffers {
    std::vector<BufferHandle> parameters, results;
  };
  Status allocate(Inputs parameters, Outputs results, Buffers& buffers);
  Status run_on(const Buffers& buffers, Outputs results);
  /// Of a launch behind another one of the plan: what its kernel may load before that has ended, since no kernel of the
  /// plan writes it (codegen/device/launch.cuh). By argument.
  [[nodiscard]] std::uint64_t unwaited_arguments(const api::KernelLaunch& launch) const;
  [[nodiscard]] profiler::LaunchValue value_of(const LaunchArgument& argument, const Buffers& buffers) const;

  api::Plan plan_;
  std::unique_ptr<profiler::Session> session_;
  std::vector<profiler::KernelHandle> kernels_;  ///< per launch
  std::optional<BufferHandle> workspace_;
};

Status EmulatedPlan::load_kernels(const ArtifactSource& artifacts) {
  std::map<std::pair<Sha256, std::string>, profiler::KernelHandle> loaded;
  for (const api::KernelLaunch& launch : plan_.launches) {
    const std::pair key(launch.ptx, launch.name);
    auto known = loaded.find(key);
    if (known == loaded.end()) {
      STITCH_ASSIGN(std::string ptx, artifacts(launch.ptx));
      STITCH_ASSIGN(const auto handle, session_->load({launch.name, std::move(ptx), {}, plan_.target.architecture}));
      known = loaded.emplace(key, handle).first;
    }
    kernels_.push_back(known->second);
  }
  return {};
}

Status EmulatedPlan::make_workspace() {
  if (plan_.workspace_bytes == 0) return {};
  STITCH_ASSIGN(workspace_, session_->allocate("workspace", plan_.workspace_bytes, profiler::Poison{},
                                               profiler::Access::read_write));
  for (const api::ZeroedRange& range : plan_.zeroed) {
    const std::vector<std::byte> zeros(range.bytes);
    STITCH_TRY(session_->write(*workspace_, range.offset, zeros));
  }
  return {};
}

profiler::LaunchValue EmulatedPlan::value_of(const LaunchArgument& argument, const Buffers& buffers) const {
  const std::size_t index = argument.value;
  switch (argument.kind) {
    case LaunchArgument::Kind::parameter: return buffers.parameters[index];
    case LaunchArgument::Kind::result: return buffers.results[index];
    case LaunchArgument::Kind::workspace: return static_cast<std::int64_t>(workspace_->address) + argument.value;
    case LaunchArgument::Kind::integer: return argument.value;
  }
  return argument.value;
}

Status EmulatedPlan::allocate(Inputs parameters, Outputs results, Buffers& buffers) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::span<const std::byte> from = parameters[i];
    STITCH_ASSIGN(const auto buffer, session_->allocate(fmt::format("parameter {}", i), std::ssize(from),
                                                        contents(from), profiler::Access::read_only));
    buffers.parameters.push_back(buffer);
  }
  std::vector<profiler::Fill> fills(results.size(), profiler::Poison{});
  for (const api::ResultCopy& copy : plan_.copies) {
    if (copy.before) fills[copy.to] = contents(parameters[copy.from.value]);
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    STITCH_ASSIGN(const auto buffer, session_->allocate(fmt::format("result {}", i), std::ssize(results[i]), fills[i],
                                                        profiler::Access::read_write));
    buffers.results.push_back(buffer);
  }
  return {};
}

std::uint64_t EmulatedPlan::unwaited_arguments(const api::KernelLaunch& launch) const {
  const auto is_updated = [&](const LaunchArgument& parameter) {
    return std::ranges::any_of(plan_.copies,
                               [&](const api::ResultCopy& copy) { return copy.before && copy.from == parameter; });
  };
  std::uint64_t unwaited = 0;
  for (std::size_t a = 0; a < std::min<std::size_t>(launch.arguments.size(), 64); ++a) {
    const LaunchArgument& argument = launch.arguments[a];
    if (argument.kind == LaunchArgument::Kind::parameter && !is_updated(argument)) unwaited |= std::uint64_t{1} << a;
  }
  return unwaited;
}

Status EmulatedPlan::run_on(const Buffers& buffers, Outputs results) {
  for (std::size_t i = 0; i < plan_.launches.size(); ++i) {
    const api::KernelLaunch& launch = plan_.launches[i];
    std::vector<profiler::LaunchValue> arguments;
    for (const LaunchArgument& argument : launch.arguments) arguments.push_back(value_of(argument, buffers));
    const profiler::LaunchShape shape{launch.blocks,
                                      launch.threads,
                                      launch.cluster,
                                      launch.shared_bytes,
                                      launch.cooperative,
                                      launch.dependent,
                                      i == 0 ? 0 : unwaited_arguments(launch)};
    const auto done = session_->launch(kernels_[i], shape, arguments, {});
    const std::string where = fmt::format("launch {} ({})", i, launch.name);
    if (!done) return done.error().within(where);
    if (!done->findings.empty()) return make_error(ErrorKind::runtime, "{}: {}", where, done->findings.front());
  }
  for (std::size_t i = 0; i < results.size(); ++i) STITCH_TRY(session_->read(buffers.results[i], 0, results[i]));
  for (const api::ResultCopy& copy : plan_.copies) {
    if (copy.before) continue;
    const std::size_t from = copy.from.value;
    const bool parameter = copy.from.kind == LaunchArgument::Kind::parameter;
    const auto source = parameter ? buffers.parameters[from] : buffers.results[from];
    const auto into = results[copy.to].first(copy.bytes);
    STITCH_TRY(session_->read(source, 0, into));
  }
  return {};
}

Status EmulatedPlan::run(Inputs parameters, Outputs results) {
  STITCH_TRY(check_buffers(plan_, parameters, results));
  Buffers buffers;
  Status status = allocate(parameters, results, buffers);
  if (status) status = run_on(buffers, results);
  if (status) tally::launched(std::ssize(plan_.launches));
  for (const auto* list : {&buffers.parameters, &buffers.results}) {
    for (const BufferHandle buffer : *list) {
      if (Status freed = session_->free(buffer); status && !freed) status = freed;
    }
  }
  return status;
}

}  // namespace

Result<std::unique_ptr<LoadedPlan>> EmulatedExecutor::load(const api::Plan& plan, const ArtifactSource& artifacts) {
  trace::Phase phase("load", {{"plan", plan.id.hex()}, {"launches", plan.launches.size()}});
  STITCH_ASSIGN(auto session, device_.session());
  auto loaded = std::make_unique<EmulatedPlan>(plan, std::move(session));
  STITCH_TRY(trace::noted(phase, loaded->load_kernels(artifacts)));
  STITCH_TRY(loaded->make_workspace());
  return std::unique_ptr<LoadedPlan>(std::move(loaded));
}

}  // namespace stitch::client
