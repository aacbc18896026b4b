#include "python/native/host_program.h"

#include <cstdlib>
#include <cstring>

#include "client/executor.h"

namespace stitch::python {
namespace {

bool is_aligned(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory) % client::buffer_alignment == 0; }

/// Aligned memory in the place of what a caller has elsewhere.
class Stand {
 public:
  explicit Stand(std::size_t bytes)
      : bytes_(bytes),
        memory_(static_cast<std::byte*>(
            std::aligned_alloc(api::arena_alignment, api::arena_bytes_of(static_cast<std::int64_t>(bytes))))) {}
  [[nodiscard]] std::span<std::byte> span() const { return {memory_.get(), bytes_}; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::size_t bytes_;
  std::unique_ptr<std::byte, Free> memory_;
};

std::vector<graph::TensorType> types_of(const std::vector<api::ProgramPort>& ports) {
  std::vector<graph::TensorType> types;
  for (const api::ProgramPort& port : ports) types.push_back(port.type);
  return types;
}

}  // namespace

Result<std::unique_ptr<HostProgram>> HostProgram::open(std::string_view document, std::string_view device,
                                                       int ordinal) {
  STITCH_ASSIGN(OpenExecutor executor, open_executor(device, ordinal));
  std::unique_ptr<HostProgram> program(new HostProgram(std::move(executor)));
  STITCH_ASSIGN(program->runner_,
                client::ProgramRunner::open_package(document, graph::Encoding::cbor, *program->executor_.executor));
  return program;
}

std::vector<graph::TensorType> HostProgram::inputs() const { return types_of(runner_->inputs()); }

std::vector<graph::TensorType> HostProgram::outputs() const { return types_of(runner_->outputs()); }

Status HostProgram::run(client::Inputs inputs, client::Outputs outputs) {
  std::vector<Stand> stands;
  std::vector<std::span<const std::byte>> from;
  std::vector<std::span<std::byte>> to;
  for (const auto& input : inputs) {
    from.push_back(input);
    if (input.empty() || is_aligned(input.data())) continue;
    std::memcpy(stands.emplace_back(input.size()).span().data(), input.data(), input.size());
    from.back() = stands.back().span();
  }
  for (const auto& output : outputs) {
    to.push_back(output);
    if (!output.empty() && !is_aligned(output.data())) to.back() = stands.emplace_back(output.size()).span();
  }
  {
    const std::lock_guard lock(running_);
    STITCH_TRY(runner_->run(from, to));
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (to[i].data() != outputs[i].data()) std::memcpy(outputs[i].data(), to[i].data(), outputs[i].size());
  }
  return {};
}

}  // namespace stitch::python
