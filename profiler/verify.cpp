#include "profiler/verify.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "profiler/block_sample.h"
#include "profiler/element_ranges.h"

namespace stitch::profiler {
namespace {

using graph::Graph;
using graph::Tensor;
using graph::TensorType;

/// Longest chain of additions that one thread makes, over all groups and phases: what the error bound of a sum has to
/// allow (graph/evaluate_error.h).
std::int64_t serial_additions(const search::KernelProgram& program) {
  std::int64_t longest = 32;
  for (const search::PhaseProgram& phase : program.phases) {
    for (const search::GroupProgram& group : phase.groups) {
      std::int64_t chain = 1;
      for (const search::AxisMapping& axis : group.mapping.axes) chain *= axis.per_thread();
      longest = std::max(longest, chain + 32);
    }
  }
  return longest;
}

/// One run of the kernel on fresh inputs.
class Run {
 public:
  Run(Session& session, const Graph& graph, const codegen::GeneratedKernel& kernel)
      : session_(session), graph_(graph), kernel_(kernel) {}

  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  ~Run() {
    for (const auto* set : {&inputs_, &outputs_, &scratch_}) {
      for (const BufferHandle buffer : *set) (void)session_.free(buffer);
    }
  }

  Status allocate(const std::vector<InputSource>& sources) {
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const TensorType& type = graph_.node(graph_.parameters()[i]).type();
      STITCH_ASSIGN(const auto buffer,
                    session_.allocate(fmt::format("parameter {}", i), type.bytes(), sources[i].filler()));
      inputs_.push_back(buffer);
    }
    for (std::size_t i = 0; i < graph_.results().size(); ++i) {
      const std::int64_t bytes = graph_.type(graph_.results()[i]).bytes();
      STITCH_ASSIGN(const auto buffer, session_.allocate(fmt::format("result {}", i), bytes, Poison{}));
      outputs_.push_back(buffer);
    }
    for (std::size_t i = 0; i < kernel_.scratch.size(); ++i) {
      const Fill fill = kernel_.scratch[i].zeroed ? Fill(Zero{}) : Fill(Poison{});
      STITCH_ASSIGN(const auto buffer, session_.allocate(fmt::format("scratch {}", i), kernel_.scratch[i].bytes, fill));
      scratch_.push_back(buffer);
    }
    return {};
  }

  Result<LaunchResult> launch(KernelHandle handle, std::span<const std::uint64_t> blocks) {
    std::vector<LaunchValue> values;
    for (const codegen::Argument& argument : kernel_.arguments) {
      if (argument.kind == codegen::Argument::Kind::integer) {
        values.emplace_back(argument.integer);
        continue;
      }
      const auto number = static_cast<std::size_t>(argument.buffer.number);
      switch (argument.buffer.kind) {
        case search::Buffer::Kind::input: values.emplace_back(inputs_[number]); break;
        case search::Buffer::Kind::output: values.emplace_back(outputs_[number]); break;
        case search::Buffer::Kind::scratch: values.emplace_back(scratch_[number]); break;
        case search::Buffer::Kind::table:
          return make_error(ErrorKind::internal, "a constant's table is not a kernel argument");
      }
    }
    const LaunchShape shape{kernel_.blocks, kernel_.threads, kernel_.cluster, kernel_.shared_bytes,
                            kernel_.cooperative};
    return session_.launch(handle, shape, values, blocks);
  }

  /// Whether the kernel counts on memory that its last launch left behind.
  [[nodiscard]] bool has_state() const {
    return std::any_of(kernel_.scratch.begin(), kernel_.scratch.end(), [](const auto& s) { return s.zeroed; });
  }

  /// The boxes of result `i` that were written; everything where the device cannot tell.
  [[nodiscard]] std::vector<graph::Box> written(std::size_t i) const {
    const TensorType& type = graph_.type(graph_.results()[i]);
    if (!session_.samples_blocks()) return {graph::Box::whole(type.dims)};
    return boxes_of(type, session_.written(outputs_[i]));
  }

  /// The elements of a box of result `i` as the kernel left them.
  Result<Tensor> read(std::size_t i, const graph::Box& box) {
    const TensorType& type = graph_.type(graph_.results()[i]);
    const graph::Dims strides = graph::row_major_strides(type.dims);
    const std::int64_t size = graph::byte_size(type.dtype);
    // Rows of the box: runs along the last dimension.
    graph::Box rows = box;
    std::int64_t run = 1;
    if (!box.size.empty()) {
      run = box.size.back();
      rows.size.back() = 1;
    }
    std::vector<std::byte> bytes(static_cast<std::size_t>(box.elements() * size));
    graph::Dims index = rows.start;
    std::size_t at = 0;
    if (!rows.empty()) {
      do {
        std::int64_t flat = 0;
        for (std::size_t d = 0; d < index.size(); ++d) flat += index[d] * strides[d];
        const auto length = static_cast<std::size_t>(run * size);
        STITCH_TRY(session_.read(outputs_[i], flat * size, std::span(bytes).subspan(at, length)));
        at += length;
      } while (graph::next_index(rows, index));
    }
    return graph::tensor_from_bytes(type, box, bytes);
  }

 private:
  Session& session_;
  const Graph& graph_;
  const codegen::GeneratedKernel& kernel_;
  std::vector<BufferHandle> inputs_, outputs_, scratch_;
};

/// What comparing one box found.
struct Comparison {
  std::int64_t checked = 0;
  double worst = 0;
  std::string failure;
};

Comparison compare(const Tensor& kernel, const Tensor& reference, std::size_t result) {
  Comparison comparison;
  graph::Dims index = kernel.box.start;
  for (std::int64_t i = 0; i < kernel.elements(); ++i) {
    const double bound = reference.bound(i);
    const double want = reference.at(i);
    const double got = kernel.at(i);
    if (std::isfinite(bound)) {
      ++comparison.checked;
      if (bound > 0 && std::isfinite(want) && std::isfinite(got)) {
        comparison.worst = std::max(comparison.worst, std::abs(want - got) / bound);
      }
    }
    // Integers beyond 2^53 are compared exactly.
    const bool exact = bound == 0 && !reference.integers.empty();
    const auto at = static_cast<std::size_t>(i);
    const bool right = exact ? kernel.integers[at] == reference.integers[at] : graph::accepts(want, bound, got);
    if (!right) {
      comparison.failure = fmt::format("result {} at {}: {:.9g} instead of {:.9g} ± {:.3g}", result,
                                       graph::to_string(index), got, want, bound);
      return comparison;
    }
    graph::next_index(kernel.box, index);
  }
  return comparison;
}

/// Compares everything that was written; adds to `verification`. Returns the share of elements that were compared.
Result<double> compare_results(Run& run, const Graph& graph, const std::vector<InputSource>& sources, bool whole,
                               const graph::EvaluateOptions& options, Verification& verification) {
  std::vector<std::vector<graph::Box>> wanted;
  double total = 0;
  for (std::size_t r = 0; r < graph.results().size(); ++r) {
    const TensorType& type = graph.type(graph.results()[r]);
    wanted.push_back(run.written(r));
    total += static_cast<double>(type.elements());
    std::int64_t written = 0;
    for (const graph::Box& box : wanted.back()) written += box.elements();
    if (whole && written != type.elements()) {
      verification.failure = fmt::format("result {}: {} of {} elements were written", r, written, type.elements());
      return 0.0;
    }
  }
  std::vector<graph::Input> inputs;
  for (const InputSource& source : sources) inputs.push_back(source.input());
  STITCH_ASSIGN(const auto reference, graph::evaluate_parts(graph, inputs, wanted, options));
  std::int64_t checked = 0;
  for (std::size_t r = 0; r < wanted.size(); ++r) {
    for (std::size_t b = 0; b < wanted[r].size(); ++b) {
      STITCH_ASSIGN(const auto kernel, run.read(r, wanted[r][b]));
      const Comparison comparison = compare(kernel, reference[r][b], r);
      checked += comparison.checked;
      verification.worst = std::max(verification.worst, comparison.worst);
      if (!comparison.failure.empty()) {
        verification.failure = comparison.failure;
        return 0.0;
      }
    }
  }
  verification.compared += checked;
  return total == 0 ? 1.0 : static_cast<double>(checked) / total;
}

}  // namespace

Result<Verification> verify_kernel(Device& device, const Graph& graph, const search::KernelProgram& program,
                                   const codegen::GeneratedKernel& kernel, const KernelImage& image,
                                   const VerifyOptions& options) {
  Verification verification;
  verification.seed = options.seed;
  verification.blocks = kernel.blocks;
  STITCH_ASSIGN(const auto session, device.session());
  STITCH_ASSIGN(const auto handle, session->load(image));
  graph::EvaluateOptions evaluate;
  evaluate.bounds = true;
  evaluate.error_model.serial_additions = serial_additions(program);
  evaluate.error_model.flush_denormals = true;
  const auto ranges = integer_ranges(graph);
  for (std::size_t d = 0; d < options.distributions.size(); ++d) {
    const std::uint64_t seed = mix(options.seed, d);
    std::vector<InputSource> sources;
    for (std::size_t p = 0; p < graph.parameters().size(); ++p) {
      sources.emplace_back(graph.node(graph.parameters()[p]).type(), options.distributions[d], mix(seed, p), ranges[p]);
    }
    const auto fail = [&](std::string_view what) {
      verification.failure =
          fmt::format("inputs {} (seed {}): {}", to_string(options.distributions[d]), options.seed, what);
      return verification;
    };
    std::vector<std::uint64_t> blocks;
    if (session->samples_blocks()) blocks = sample_blocks(program, kernel, options.work_budget, seed);
    verification.blocks_run = blocks.empty() ? kernel.blocks : static_cast<std::int64_t>(blocks.size());

    Run run(*session, graph, kernel);
    STITCH_TRY(run.allocate(sources));
    STITCH_ASSIGN(auto launched, run.launch(handle, blocks));
    // Counters must be left ready for the next launch: it is the second one that is judged.
    if (d == 0 && launched.findings.empty() && run.has_state()) {
      STITCH_ASSIGN(launched, run.launch(handle, blocks));
    }
    if (!launched.findings.empty()) return fail(launched.findings.front());
    verification.counters = launched.counters;
    STITCH_ASSIGN(const double share, compare_results(run, graph, sources, blocks.empty(), evaluate, verification));
    if (!verification.failure.empty()) return fail(std::string(verification.failure));
    verification.share = std::max(verification.share, share);
  }
  verification.correct = true;
  return verification;
}

}  // namespace stitch::profiler
