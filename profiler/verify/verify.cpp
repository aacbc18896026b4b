#include "profiler/verify/verify.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "base/clock.h"
#include "base/random.h"
#include "graph/in_place.h"
#include "kernel/program/slab_choice.h"
#include "profiler/verify/block_sample.h"
#include "profiler/verify/element_ranges.h"
#include "profiler/verify/kernel_buffers.h"
#include "profiler/verify/reference_parts.h"

namespace stitch::profiler {
namespace {

using graph::Graph;
using graph::Tensor;
using graph::TensorType;

/// One run of the kernel on fresh inputs.
class Run {
 public:
  Run(Session& session, const Graph& graph, const codegen::GeneratedKernel& kernel, KernelBuffers buffers)
      : session_(session), graph_(graph), kernel_(kernel), buffers_(std::move(buffers)) {}

  /// `in_place`: see KernelBuffers::arguments; it is what such a launch wrote that is judged.
  Result<LaunchResult> launch(KernelHandle handle, const BlockSample& sample, bool in_place) {
    for (const BlockSample::Preset& preset : sample.presets) STITCH_TRY(write(preset));
    LaunchShape shape = buffers_.shape();
    if (sample.grid > 0) shape.blocks = sample.grid;
    return session_.launch(handle, shape, buffers_.arguments(in_place), sample.blocks);
  }

  /// Whether the kernel counts on memory that its last launch left behind.
  [[nodiscard]] bool has_state() const {
    return std::any_of(kernel_.scratch.begin(), kernel_.scratch.end(), [](const auto& s) { return s.zeroed; });
  }

  /// The boxes of result `i` that were written; everything where the device cannot tell.
  [[nodiscard]] std::vector<graph::Box> written(std::size_t i) const {
    const TensorType& type = graph_.type(graph_.results()[i]);
    if (!session_.samples_blocks()) return {graph::Box::whole(type.dims)};
    return boxes_of(type, session_.written(buffers_.output(i)));
  }

  /// Of result `i`, whose slabs' parts are `step` elements long, how many elements of each slab were written.
  [[nodiscard]] std::vector<std::int64_t> written_by_slab(std::size_t i, std::int64_t step, std::int64_t slabs) const {
    const std::int64_t size = graph::byte_size(graph_.type(graph_.results()[i]).dtype);
    std::vector<std::int64_t> written(slabs, 0);
    for (const WrittenRange& range : session_.written(buffers_.output(i))) {
      const std::int64_t end = (range.offset + range.bytes) / size;
      for (std::int64_t at = range.offset / size; at < end;) {
        const std::int64_t next = std::min(end, (at / step + 1) * step);
        written[at / step % slabs] += next - at;
        at = next;
      }
    }
    return written;
  }

  /// The elements of a box of result `i` as the kernel left them.
  Result<Tensor> read(std::size_t i, const graph::Box& box) {
    const TensorType& type = graph_.type(graph_.results()[i]);
    const graph::Dims strides = graph::row_major_strides(type.dims);
    const std::int64_t size = graph::byte_size(type.dtype);
    std::vector<std::byte> bytes(box.elements() * size);
    const auto [runs, length] = dense_runs(box, type.dims);
    graph::Dims index = runs.start;
    for (std::size_t at = 0; at < bytes.size(); at += length * size) {
      std::int64_t flat = 0;
      for (std::size_t d = 0; d < index.size(); ++d) flat += index[d] * strides[d];
      const auto part = std::span(bytes).subspan(at, length * size);
      STITCH_TRY(session_.read(buffers_.output(i), flat * size, part));
      graph::next_index(runs, index);
    }
    return graph::tensor_from_bytes(type, box, bytes);
  }

 private:
  Status write(const BlockSample::Preset& preset) {
    const std::size_t size = preset.size;
    std::vector<std::byte> bytes(preset.count * size);
    for (std::size_t at = 0; at < bytes.size(); at += size) std::memcpy(&bytes[at], &preset.bits, size);
    return session_.write(buffers_.scratch(preset.scratch), preset.offset, bytes);
  }

  Session& session_;
  const Graph& graph_;
  const codegen::GeneratedKernel& kernel_;
  KernelBuffers buffers_;
};

/// What comparing one box found.
struct Comparison {
  std::int64_t checked = 0;
  double worst = 0;
  std::string failure;
};

/// The index of element `i` of a box.
graph::Dims index_in(const graph::Box& box, std::int64_t i) {
  graph::Dims index = box.start;
  for (std::size_t d = index.size(); d-- > 0; i /= box.size[d]) index[d] += i % box.size[d];
  return index;
}

Comparison compare(const Tensor& kernel, const Tensor& reference, std::size_t result) {
  Comparison comparison;
  const bool integral = !reference.integers.empty();
  for (std::int64_t i = 0, count = kernel.elements(); i < count; ++i) {
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
    const std::size_t at = i;
    const bool right =
        bound == 0 && integral ? kernel.integers[at] == reference.integers[at] : graph::accepts(want, bound, got);
    if (!right) {
      comparison.failure = fmt::format("result {} at {}: {:.9g} instead of {:.9g} ± {:.3g}", result,
                                       graph::to_string(index_in(kernel.box, i)), got, want, bound);
      return comparison;
    }
  }
  return comparison;
}

/// When all results together have more elements than this, they are compared in parts: the reference keeps what these
/// depend on.
constexpr std::int64_t most_compared_of_blocks = std::int64_t{1} << 23;
constexpr std::int64_t small_result = 8192;  ///< always compared whole

/// Boxes of 16 to 4096 elements that lie side by side, spread evenly over a tensor and drawn by `seed` within, which
/// hold `share` of it; the first and the last are always among them. Where little is compared, it is still taken from
/// hundreds of places.
std::vector<graph::Box> some_boxes(const TensorType& type, double share, std::uint64_t seed) {
  const auto run = std::clamp<std::int64_t>(std::llround(share * type.elements()) / 256, 16, 4096);
  graph::Box box = graph::Box::whole(type.dims);
  std::size_t split = 0;  // dimensions before it are taken one index at a time, those behind it whole
  while (split + 1 < type.dims.size() && box.elements() / box.size[split] > run) box.size[split++] = 1;
  box.size[split] = std::max<std::int64_t>(1, box.size[split] * run / box.elements());
  graph::Dims steps;
  for (std::size_t d = 0; d <= split; ++d) steps.push_back((type.dims[d] + box.size[d] - 1) / box.size[d]);
  const auto at = [&](std::int64_t number) {
    graph::Box here = box;
    for (std::size_t d = split + 1; d-- > 0; number /= steps[d]) {
      here.start[d] = number % steps[d] * box.size[d];
      here.size[d] = std::min(box.size[d], type.dims[d] - here.start[d]);
    }
    return here;
  };
  const std::int64_t all = graph::element_count(steps);
  const std::int64_t wanted = share * all;
  std::set<std::int64_t> numbers = {0, all - 1};
  Random random(seed);
  for (std::int64_t i = 0; i < wanted; ++i) {
    const std::int64_t first = i * all / wanted, end = std::max(first + 1, (i + 1) * all / wanted);
    numbers.insert(first + static_cast<std::int64_t>(random.below(end - first)));
  }
  std::vector<graph::Box> boxes;
  for (const std::int64_t number : numbers) boxes.push_back(at(number));
  return boxes;
}

/// Compares what was written, of whole results at most `most` elements; adds to `verification`. Returns the share of
/// elements that were compared.
Result<double> compare_results(Run& run, const Graph& graph, const std::vector<InputSource>& sources, bool whole,
                               std::int64_t most, const graph::EvaluateOptions& options, Verification& verification) {
  std::vector<std::vector<graph::Box>> wanted;
  double total = 0;
  for (const graph::Value result : graph.results()) total += graph.type(result).elements();
  for (std::size_t r = 0; r < graph.results().size(); ++r) {
    const TensorType& type = graph.type(graph.results()[r]);
    wanted.push_back(run.written(r));
    std::int64_t written = 0;
    for (const graph::Box& box : wanted.back()) written += box.elements();
    if (whole && graph::updated_parameter(graph, graph.results()[r])) {
      wanted.back() = {graph::Box::whole(type.dims)};  // what the update does not cover must be left alone
    } else if (whole && written != type.elements()) {
      verification.failure = fmt::format("result {}: {} of {} elements were written", r, written, type.elements());
      return 0.0;
    }
    const double share = most / total;
    if (whole && share < 1 && type.elements() > small_result)
      wanted.back() =
          some_boxes(type, share, mix(mix(verification.seed, r), verification.compared));  // others each time
  }
  std::vector<graph::Input> inputs;
  for (const InputSource& source : sources) inputs.push_back(source.input(options.stop));
  STITCH_ASSIGN(const auto reference, reference_within(graph, inputs, wanted, options));
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

/// What does not depend on the inputs.
struct Subject {
  Session& session;
  KernelHandle handle;
  const Graph& graph;
  const codegen::GeneratedKernel& kernel;
  graph::EvaluateOptions evaluate;
  std::int64_t most_compared;
  std::int64_t slabs = 1;
  std::vector<std::int64_t> slab_steps = {};  ///< by result (kernel/program/slab_choice.h)
};

/// A block takes the same tiles of every slab. A slab that was left out is not seen by comparing what was written.
std::string uneven_slabs(const Run& run, const Subject& subject) {
  for (std::size_t r = 0; r < subject.slab_steps.size(); ++r) {
    if (subject.slab_steps[r] == 0) continue;
    const std::vector<std::int64_t> written = run.written_by_slab(r, subject.slab_steps[r], subject.slabs);
    for (std::size_t slab = 1; slab < written.size(); ++slab) {
      if (written[slab] != written[0])
        return fmt::format("result {}: {} elements of slab {} were written, {} of the first", r, written[slab], slab,
                           written[0]);
    }
  }
  return {};
}

/// What the sample's blocks left out is not seen by comparing what they wrote.
std::string unwritten(const Run& run, const Subject& subject, const BlockSample& sample) {
  std::int64_t written = 0;
  for (std::size_t r = 0; r < subject.graph.results().size(); ++r) {
    for (const graph::Box& box : run.written(r)) written += box.elements();
  }
  if (written == sample.writes) return {};
  return fmt::format("results of {} blocks: {} elements were written instead of {}", sample.blocks.size(), written,
                     sample.writes);
}

/// Runs `sample` of the kernel on one set of inputs. A failure lands in `verification`, as it stands.
Status run_once(const Subject& subject, const std::vector<InputSource>& sources, const BlockSample& sample,
                Verification& verification) {
  STITCH_ASSIGN(auto buffers, KernelBuffers::allocate(subject.session, subject.graph, subject.kernel, sources));
  Run run(subject.session, subject.graph, subject.kernel, std::move(buffers));
  // Counters must be left ready for the next launch: it is the second one that is judged.
  const bool twice = run.has_state() && !verification.counters;
  STITCH_ASSIGN(auto launched, run.launch(subject.handle, sample, !twice));
  if (launched.findings.empty() && twice) {
    STITCH_ASSIGN(launched, run.launch(subject.handle, sample, true));
  }
  verification.blocks_run = sample.whole() ? subject.kernel.blocks : static_cast<std::int64_t>(sample.blocks.size());
  verification.counters = launched.counters;
  if (!launched.findings.empty()) {
    verification.failure = launched.findings.front();
    return {};
  }
  if (!sample.whole() && subject.slabs > 1) verification.failure = uneven_slabs(run, subject);
  if (verification.failure.empty() && sample.writes > 0) verification.failure = unwritten(run, subject, sample);
  if (!verification.failure.empty()) return {};
  graph::EvaluateOptions evaluate = subject.evaluate;
  evaluate.restrictions = sample.restrictions;
  STITCH_ASSIGN(const double share, compare_results(run, subject.graph, sources, sample.whole(), subject.most_compared,
                                                    evaluate, verification));
  verification.share = std::max(verification.share, share);
  return {};
}

/// Whether a kernel that is right could have failed like this because a sample was put together wrongly.
bool may_be_the_sample(std::string_view failure) {
  return failure.starts_with("result ") || failure.starts_with("uninitialised_read") || failure.starts_with("deadlock");
}

/// As many distributions as the budget allows with `work` for each, at least two: `mixed` and others that the seed
/// draws. Of a recurrent kernel `small` is the second, whether asked for or not: what a turn may be off by grows from
/// turn to turn with the weights, until nothing is left to compare; with small ones it does not.
std::vector<Distribution> affordable(const VerifyOptions& options, std::int64_t work, bool recurrent) {
  std::vector<Distribution> all = options.distributions;
  if (recurrent && std::ranges::count(all, Distribution::small) == 0) all.push_back(Distribution::small);
  const auto count =
      static_cast<std::size_t>(std::max<std::int64_t>(2, options.total_budget / std::max<std::int64_t>(1, work)));
  if (count >= all.size()) return all;
  Random random(options.seed);
  for (std::size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[random.below(i)]);
  const auto put_first = [&](Distribution distribution) {
    if (const auto found = std::find(all.begin(), all.end(), distribution); found != all.end())
      std::rotate(all.begin(), found, found + 1);
  };
  if (recurrent) put_first(Distribution::small);
  put_first(Distribution::mixed);
  all.resize(count);
  return all;
}

}  // namespace

std::int64_t serial_additions(const kernel::KernelProgram& program) {
  std::int64_t longest = 32;
  for (const kernel::PhaseProgram& phase : program.phases) {
    for (const kernel::GroupProgram& group : phase.groups) {
      std::int64_t chain = 1;
      for (const kernel::AxisMapping& axis : group.mapping.axes) chain *= axis.per_thread();
      longest = std::max(longest, chain + 32);
    }
  }
  return longest;
}

Result<Verification> verify_kernel(Device& device, const Graph& graph, const kernel::KernelProgram& program,
                                   const codegen::GeneratedKernel& kernel, const KernelImage& image,
                                   const VerifyOptions& options) {
  Execution execution;
  execution.serial_additions = serial_additions(program);
  execution.work = kernel_work(program);
  execution.recurrent = program.recurrent != nullptr;
  if (program.schedule.slabs.count > 1) {
    execution.slabs = program.schedule.slabs.count;
    execution.slab_steps = kernel::slab_steps(program, graph.results().size());
  }
  execution.sample = [&](std::int64_t budget, std::uint64_t seed) {
    return sample_blocks(graph, program, kernel, budget, seed);
  };
  return verify_kernel(device, graph, execution, kernel, image, options);
}

Result<Verification> verify_kernel(Device& device, const Graph& graph, const Execution& execution,
                                   const codegen::GeneratedKernel& kernel, const KernelImage& image,
                                   const VerifyOptions& options) {
  Verification verification;
  verification.seed = options.seed;
  verification.blocks = kernel.blocks;
  STITCH_ASSIGN(const auto session, device.session());
  STITCH_ASSIGN(const auto handle, session->load(image));
  constexpr std::int64_t always = std::int64_t{1} << 14;
  const std::int64_t bearable =
      std::max(always, options.most_operations / std::max<std::int64_t>(1, execution.element_operations));
  const std::int64_t most =
      session->samples_blocks() ? most_compared_of_blocks : std::min(options.most_compared, bearable);
  Subject subject{*session, handle, graph, kernel, {}, most, execution.slabs, execution.slab_steps};
  subject.evaluate.bounds = true;
  subject.evaluate.error_model.serial_additions = execution.serial_additions;
  subject.evaluate.error_model.flush_denormals = true;
  subject.evaluate.error_model.narrow_part = execution.narrow_part;
  const auto sample_for = [&](std::uint64_t seed) {
    return session->samples_blocks() ? execution.sample(options.work_budget, seed) : BlockSample{};
  };
  const BlockSample typical = sample_for(options.seed);
  const double all = static_cast<double>(typical.grid > 0 ? typical.grid : kernel.blocks);
  const double part = typical.whole() ? 1.0 : static_cast<double>(typical.blocks.size()) / all;
  verification.distributions =
      affordable(options, static_cast<std::int64_t>(part * execution.work), execution.recurrent);
  const std::int64_t distributions = std::ssize(verification.distributions);
  subject.evaluate.work_limit = options.reference_budget;
  subject.evaluate.memory_limit = options.reference_bytes;
  subject.evaluate.stop = options.stop;
  session->stop_with(options.stop);
  const Stopwatch watch;
  std::optional<emulator::Counters> typical_counters;  // of indices that are inside
  for (std::int64_t d = 0; d < distributions; ++d) {
    if (options.stop.stop_requested()) return make_error(ErrorKind::cancelled, "stopped during verification");
    if (d >= 2 && watch.seconds() > options.most_seconds) {
      verification.distributions.resize(d);
      break;
    }
    const Distribution distribution = verification.distributions[d];
    const std::uint64_t seed = mix(options.seed, static_cast<std::uint64_t>(distribution));
    const std::vector<InputSource> sources = make_inputs(graph, distribution, seed);
    const BlockSample sample = sample_for(seed);
    STITCH_TRY(run_once(subject, sources, sample, verification));
    // What a sample's reductions should give is an argument about the schedule; a verdict against a kernel is not
    // left to it. Races and stray accesses need no such argument.
    if (!sample.restrictions.empty() && may_be_the_sample(verification.failure)) {
      verification.failure.clear();
      STITCH_TRY(run_once(subject, sources, {}, verification));
    }
    if (!verification.failure.empty()) {
      verification.failure =
          fmt::format("inputs {} (seed {}): {}", to_string(distribution), options.seed, verification.failure);
      return verification;
    }
    if (distribution == Distribution::mixed) typical_counters = verification.counters;
  }
  if (typical_counters) verification.counters = std::move(typical_counters);
  verification.correct = true;
  return verification;
}

}  // namespace stitch::profiler
