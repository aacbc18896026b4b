#include "lab/breadth/plan_run.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "graph/reference/evaluate.h"
#include "profiler/verify/verify.h"

namespace stitch::lab {
namespace {

using graph::Tensor;
using graph::Value;
using profiler::BufferHandle;

/// A plan's buffers on a session, and its launches.
class PlanMemory {
 public:
  PlanMemory(profiler::Session& session, const RandomPlan& plan) : session_(session), plan_(plan) {}

  Status allocate(const std::vector<Tensor>& arguments) {
    const graph::Graph& fragment = plan_.fragment;
    for (std::size_t p = 0; p < arguments.size(); ++p) {
      const std::vector<std::byte> bytes = graph::to_bytes(arguments[p]);
      const auto fill = [bytes](std::uint64_t offset, std::span<std::byte> into) {
        std::memcpy(into.data(), bytes.data() + offset, into.size());
      };
      const Value parameter{fragment.parameters()[p], 0};
      STITCH_ASSIGN(inputs_[parameter], session_.allocate(fmt::format("parameter {}", p), std::ssize(bytes),
                                                          profiler::Filler(fill), profiler::Access::read_only));
    }
    for (const search::PlannedKernel& kernel : plan_.planned) {
      for (const Value value : kernel.results) {
        STITCH_ASSIGN(computed_[value], session_.allocate(fmt::format("value {}.{}", value.node, value.result),
                                                          fragment.type(value).bytes(), profiler::Poison{},
                                                          profiler::Access::read_write));
        written_.push_back(computed_.at(value));
      }
    }
    for (const codegen::GeneratedKernel& kernel : plan_.kernels) {
      std::vector<BufferHandle>& own = scratch_.emplace_back();
      for (const codegen::ScratchBuffer& buffer : kernel.scratch) {
        const profiler::Fill fill = buffer.zeroed ? profiler::Fill(profiler::Zero{}) : profiler::Poison{};
        STITCH_ASSIGN(const BufferHandle handle,
                      session_.allocate("scratch", buffer.bytes, fill, profiler::Access::read_write));
        own.push_back(handle);
        has_state_ = has_state_ || buffer.zeroed;
      }
    }
    return {};
  }

  /// Kernels that need zeroed memory must leave it ready for their next launch.
  [[nodiscard]] bool has_state() const { return has_state_; }

  Status poison_results() {
    for (const BufferHandle buffer : written_)
      STITCH_TRY(session_.write(buffer, 0, std::vector(static_cast<std::size_t>(buffer.bytes), std::byte{0xCD})));
    return {};
  }

  /// The first finding, or nothing.
  Result<std::string> launch(const std::vector<profiler::KernelHandle>& handles) {
    for (std::size_t k = 0; k < handles.size(); ++k) {
      const codegen::GeneratedKernel& kernel = plan_.kernels[k];
      const profiler::LaunchShape shape{kernel.blocks,       kernel.threads,     kernel.cluster,
                                        kernel.shared_bytes, kernel.cooperative, true};
      STITCH_ASSIGN(const auto arguments, arguments_of(k));
      const Result<profiler::LaunchResult> launched = session_.launch(handles[k], shape, arguments, {});
      if (!launched) return launched.error().within(fmt::format("kernel {}", k));
      if (!launched->findings.empty()) return fmt::format("kernel {}: {}", k, launched->findings.front());
    }
    return std::string();
  }

  /// The elements of a value of the fragment as they are in memory, or as a constant has them.
  Result<Tensor> read(Value value) {
    const graph::TensorType& type = plan_.fragment.type(value);
    const graph::Node& node = plan_.fragment.node(value.node);
    if (node.op == graph::Op::constant) return graph::tensor_from(node.as<graph::ConstantAttributes>());
    const auto found = computed_.find(value);
    if (found == computed_.end()) return make_error(ErrorKind::internal, "no kernel computes %{}", value.node);
    std::vector<std::byte> bytes(static_cast<std::size_t>(type.bytes()));
    STITCH_TRY(session_.read(found->second, 0, bytes));
    return graph::tensor_from_bytes(type, graph::Box::whole(type.dims), bytes);
  }

 private:
  Result<std::vector<profiler::LaunchValue>> arguments_of(std::size_t k) const {
    std::vector<profiler::LaunchValue> arguments;
    const search::PlannedKernel& planned = plan_.planned[k];
    for (const codegen::Argument& argument : plan_.kernels[k].arguments) {
      const auto number = static_cast<std::size_t>(argument.buffer.number);
      if (argument.kind == codegen::Argument::Kind::integer) {
        arguments.emplace_back(argument.integer);
      } else if (argument.buffer.kind == kernel::Buffer::Kind::scratch) {
        arguments.emplace_back(scratch_[k][number]);
      } else {
        const bool input = argument.buffer.kind == kernel::Buffer::Kind::input;
        const Value value = input ? planned.arguments[number] : planned.results[number];
        const bool given = input && plan_.fragment.node(value.node).op == graph::Op::parameter;
        const auto& among = given ? inputs_ : computed_;
        const auto found = among.find(value);
        if (found == among.end())
          return make_error(ErrorKind::internal, "kernel {} reads what no kernel before it computes", k);
        arguments.emplace_back(found->second);
      }
    }
    return arguments;
  }

  profiler::Session& session_;
  const RandomPlan& plan_;
  std::map<Value, BufferHandle> inputs_;
  std::map<Value, BufferHandle> computed_;  ///< a parameter that is a result is copied, and is here too
  std::vector<BufferHandle> written_;
  std::vector<std::vector<BufferHandle>> scratch_;  ///< by kernel
  bool has_state_ = false;
};

/// Adds what comparing one result found.
void compare(const Tensor& got, const Tensor& want, std::size_t result, PlanVerdict& verdict) {
  const bool integral = !want.integers.empty();
  verdict.elements += got.elements();
  for (std::int64_t i = 0; i < got.elements(); ++i) {
    const double bound = want.bound(i);
    if (std::isfinite(bound)) ++verdict.compared;
    const auto at = static_cast<std::size_t>(i);
    const bool right =
        bound == 0 && integral ? got.integers[at] == want.integers[at] : graph::accepts(want.at(i), bound, got.at(i));
    if (right || !verdict.failure.empty()) continue;
    verdict.failure =
        fmt::format("result {} at {}: {:.9g} instead of {:.9g} ± {:.3g}", result, i, got.at(i), want.at(i), bound);
  }
}

}  // namespace

Result<PlanVerdict> run_plan(profiler::Device& device, const RandomPlan& plan,
                             const std::vector<profiler::KernelImage>& images, const std::vector<Tensor>& arguments) {
  STITCH_ASSIGN(const auto session, device.session());
  std::vector<profiler::KernelHandle> handles;
  for (const profiler::KernelImage& image : images) {
    STITCH_ASSIGN(const auto handle, session->load(image));
    handles.push_back(handle);
  }
  PlanMemory memory(*session, plan);
  STITCH_TRY(memory.allocate(arguments));
  PlanVerdict verdict;
  for (int launch = 0; launch < (memory.has_state() ? 2 : 1) && verdict.failure.empty(); ++launch) {
    if (launch > 0) STITCH_TRY(memory.poison_results());
    STITCH_ASSIGN(verdict.failure, memory.launch(handles));
  }
  if (!verdict.failure.empty()) return verdict;
  graph::EvaluateOptions options;
  options.bounds = true;
  options.error_model.flush_denormals = true;
  for (const search::PlannedKernel& planned : plan.planned) {
    const std::int64_t serial = profiler::serial_additions(planned.kernel->candidates.front().program);
    options.error_model.serial_additions = std::max(options.error_model.serial_additions, serial);
  }
  STITCH_ASSIGN(const std::vector<Tensor> reference, graph::evaluate(plan.expected, arguments, options));
  for (std::size_t r = 0; r < reference.size(); ++r) {
    if (reference[r].elements() == 0) continue;  // nobody computes nothing
    STITCH_ASSIGN(const Tensor got, memory.read(plan.fragment.results()[r]));
    compare(got, reference[r], r, verdict);
  }
  return verdict;
}

}  // namespace stitch::lab
