#include "client/open_program.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "base/device_class.h"
#include "client/cuda_executor.h"
#include "client/host_memory.h"
#include "client/trace/plan_trace.h"

namespace stitch::client {
namespace {

bool is_aligned(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory) % buffer_alignment == 0; }

std::vector<graph::TensorType> types_of(const std::vector<api::ProgramPort>& ports) {
  std::vector<graph::TensorType> types;
  for (const api::ProgramPort& port : ports) types.push_back(port.type);
  return types;
}

bool overlap(std::span<const std::byte> a, std::span<const std::byte> b) {
  const std::less<> before;
  return before(a.data(), b.data() + b.size()) && before(b.data(), a.data() + a.size());
}

/// The executor of a GPU; null: it is another one.
CudaExecutor* gpu_of(const OpenExecutor& executor) { return dynamic_cast<CudaExecutor*>(executor.executor.get()); }

/// The document's program, or the one of a package for this device.
Result<api::Program> choose_program(std::string_view document, const Executor& executor) {
  if (!api::looks_like_package(document)) return api::decode_program(document, graph::Encoding::cbor);
  STITCH_ASSIGN(api::Package package, api::decode_package(document));
  return program_for(std::move(package), executor);
}

}  // namespace

Result<api::Program> program_for(api::Package package, const DeviceSpec& device) {
  const api::Compatibility found = api::compatibility(package, device);
  if (found.fitness == api::Compatibility::Fitness::refused)
    return make_error(ErrorKind::constraint, "the package is refused on {}: {}", device.name, found.reason);
  return std::move(package.programs[static_cast<std::size_t>(found.program)]);
}

Result<api::Program> program_for(api::Package package, const Executor& executor) {
  const std::optional<DeviceTraits> traits = executor.traits();
  if (!traits && dynamic_cast<const CudaExecutor*>(&executor) != nullptr) {
    return make_error(ErrorKind::unavailable,
                      "the driver does not say what this GPU is; open one of the package's programs");
  }
  STITCH_ASSIGN(const DeviceClass device, traits ? classify(*traits) : find_device_class("h100"));
  return program_for(std::move(package), device.spec);
}

Result<std::unique_ptr<OpenProgram>> OpenProgram::open(std::string_view document, DeviceKind kind, int ordinal) {
  STITCH_ASSIGN(OpenExecutor executor, open_executor(kind, ordinal));
  STITCH_ASSIGN(api::Program program, choose_program(document, *executor.executor));
  return open(std::move(program), std::move(executor));
}

Result<std::unique_ptr<OpenProgram>> OpenProgram::open(api::Program program, OpenExecutor executor) {
  std::unique_ptr<OpenProgram> opened(new OpenProgram(std::move(executor)));
  STITCH_TRY(opened->load(std::move(program)));
  return opened;
}

Status OpenProgram::load(api::Program program) {
  trace::event("program", {{"program", program.id.hex()},
                           {"name", program.model},
                           {"device", program.target.device},
                           {"fragments", program.fragments.size()}});
  can_launch_ = no_addresses();
  if (CudaExecutor* const gpu = gpu_of(executor_)) {
    auto streamed = StreamProgram::open(program, *gpu);
    if (!streamed && streamed.error().kind != ErrorKind::unsupported) return streamed.error();
    can_launch_ = streamed ? Status() : Status(streamed.error());
    if (!streamed) {
      trace_fallback(program.model, streamed.error().message, "host memory, step by step", program.model);
    }
    if (streamed) {
      stream_program_ = *std::move(streamed);
      return {};
    }
  }
  STITCH_ASSIGN(runner_, ProgramRunner::open(std::move(program), *executor_.executor));
  return {};
}

const api::Program& OpenProgram::program() const { return runner_ ? runner_->program() : stream_program_->program(); }
std::vector<graph::TensorType> OpenProgram::inputs() const { return types_of(program().parameters); }
std::vector<graph::TensorType> OpenProgram::outputs() const { return types_of(program().results); }

std::int64_t OpenProgram::workspace_bytes() const {
  return runner_ ? runner_->workspace_bytes() : stream_program_->workspace_bytes();
}

std::vector<ProgramFallback> OpenProgram::fallbacks() const {
  return runner_ ? runner_->fallbacks() : std::vector<ProgramFallback>();
}

std::string OpenProgram::library() const { return runner_ ? runner_->library() : stream_program_->library(); }

Status OpenProgram::run(Inputs parameters, Outputs results) {
  std::vector<HostMemory> stands;
  std::vector<std::span<const std::byte>> from;
  std::vector<std::span<std::byte>> to;
  for (const auto& parameter : parameters) {
    from.push_back(parameter);
    if (parameter.empty() || is_aligned(parameter.data())) continue;
    std::memcpy(stands.emplace_back(std::ssize(parameter)).span().data(), parameter.data(), parameter.size());
    from.back() = stands.back().span();
  }
  for (const auto& result : results) {
    to.push_back(result);
    const bool is_read =
        std::ranges::any_of(parameters, [&](const auto& parameter) { return overlap(parameter, result); });
    if (!result.empty() && (is_read || !is_aligned(result.data())))
      to.back() = stands.emplace_back(std::ssize(result)).span();
  }
  {
    const std::lock_guard lock(running_);
    const auto phase = first_launch(launched_, program().id, "host memory");
    STITCH_TRY(runner_ ? runner_->run(from, to) : stream_program_->run(from, to));
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (to[i].data() != results[i].data()) std::memcpy(results[i].data(), to[i].data(), results[i].size());
  }
  return {};
}

Status OpenProgram::launch(Addresses parameters, Addresses results, void* stream) {
  STITCH_TRY(can_launch_);
  const std::lock_guard lock(running_);
  const auto phase = first_launch(launched_, program().id, "stream");
  return stream_program_->launch(parameters, results, stream);
}

}  // namespace stitch::client
