#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "graph/in_place.h"
#include "graph/literal.h"
#include "graph/reference/evaluate.h"
#include "profiler/verify/verify.h"
#include "tests/profiler/kernel_case.h"

/// Generated kernels run on the emulated device with chosen bytes, where verification's own inputs would not do.
namespace stitch::codegen::test {

using profiler::test::compile;
using profiler::test::KernelCase;
using profiler::test::make_case;
using profiler::test::Wish;

using Bytes = std::vector<std::byte>;

/// Elements of `dtype`, each the nearest to a number; 64-bit integers from load_integer's range take `bytes_of` below.
inline Bytes bytes_of(graph::DType dtype, std::span<const double> values) {
  const std::size_t size = graph::byte_size(dtype);
  Bytes bytes(values.size() * size);
  for (std::size_t i = 0; i < values.size(); ++i) graph::store_element(dtype, values[i], &bytes[i * size]);
  return bytes;
}

/// Elements given by their bits.
inline Bytes bytes_of_bits(graph::DType dtype, std::span<const std::uint64_t> bits) {
  const std::size_t size = graph::byte_size(dtype);
  Bytes bytes(bits.size() * size);
  for (std::size_t i = 0; i < bits.size(); ++i) std::memcpy(&bytes[i * size], &bits[i], size);
  return bytes;
}

inline std::uint64_t bits_at(graph::DType dtype, const Bytes& bytes, std::size_t element) {
  const std::size_t size = graph::byte_size(dtype);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &bytes[element * size], size);
  return bits;
}

struct KernelOutcome {
  std::vector<Bytes> results;
  emulator::Counters counters;
  std::vector<std::string> findings;
};

/// Launches of all blocks, one after the other, each with results of its own and all with the same scratch memory. An
/// input that is as it was lies where it lay; results that are not written keep a pattern of 0xCD.
inline std::vector<KernelOutcome> launch_in_turn(const KernelCase& each, const std::vector<std::vector<Bytes>>& turns,
                                                 const profiler::EmulatedOptions& options = {}) {
  profiler::EmulatedDevice device(options);
  const auto must = [&](auto result) {
    if (!result) {
      throw std::runtime_error(result.error().message + "\n" + each.kernel.source);
    }
    return std::move(*result);
  };
  const auto done = [&](const Status& status) {
    if (!status) {
      throw std::runtime_error(status.error().message);
    }
  };
  const auto session = must(device.session());
  const auto handle = must(session->load(compile(each.kernel, each.architecture)));
  std::vector<profiler::BufferHandle> scratch;
  for (const ScratchBuffer& buffer : each.kernel.scratch) {
    scratch.push_back(must(session->allocate("scratch", buffer.bytes, profiler::Zero{}, profiler::Access::read_write)));
  }
  std::vector<KernelOutcome> outcomes;
  std::vector<profiler::BufferHandle> in(turns.front().size());
  for (std::size_t turn = 0; turn < turns.size(); ++turn) {
    for (std::size_t i = 0; i < in.size(); ++i) {
      const Bytes& bytes = turns[turn][i];
      if (turn > 0 && bytes == turns[turn - 1][i]) continue;
      in[i] = must(session->allocate("input", bytes.size(), profiler::Zero{}, profiler::Access::read_only));
      done(session->write(in[i], 0, bytes));
    }
    std::vector<profiler::BufferHandle> out;
    for (const graph::Value value : each.graph->results()) {
      out.push_back(must(session->allocate("result", each.graph->type(value).bytes(), profiler::Zero{},
                                           profiler::Access::read_write)));
      done(session->write(out.back(), 0, Bytes(out.back().bytes, std::byte{0xCD})));
    }
    std::vector<profiler::LaunchValue> arguments;
    for (const Argument& argument : each.kernel.arguments) {
      const std::size_t number = argument.buffer.number;
      if (argument.kind == Argument::Kind::integer) {
        arguments.emplace_back(argument.integer);
      } else if (argument.buffer.kind == kernel::Buffer::Kind::input) {
        arguments.emplace_back(in.at(number));
      } else if (argument.buffer.kind == kernel::Buffer::Kind::output) {
        arguments.emplace_back(out.at(number));
      } else {
        arguments.emplace_back(scratch.at(number));
      }
    }
    const profiler::LaunchShape shape{each.kernel.blocks, each.kernel.threads, each.kernel.cluster,
                                      each.kernel.shared_bytes, each.kernel.cooperative};
    const profiler::LaunchResult launched = must(session->launch(handle, shape, arguments, {}));
    KernelOutcome& outcome = outcomes.emplace_back();
    outcome.findings = launched.findings;
    if (launched.counters) outcome.counters = *launched.counters;
    for (const profiler::BufferHandle buffer : out) {
      Bytes& bytes = outcome.results.emplace_back(buffer.bytes);
      done(session->read(buffer, 0, bytes));
    }
  }
  return outcomes;
}

inline KernelOutcome launch(const KernelCase& each, const std::vector<Bytes>& inputs,
                            const profiler::EmulatedOptions& options = {}) {
  return launch_in_turn(each, {inputs}, options).front();
}

/// The same of a kernel that nothing must be found in.
inline KernelOutcome run(const KernelCase& each, const std::vector<Bytes>& inputs,
                         const profiler::EmulatedOptions& options = {}) {
  KernelOutcome outcome = launch(each, inputs, options);
  for (const std::string& finding : outcome.findings) ADD_FAILURE() << finding << "\n" << each.kernel.source;
  return outcome;
}

/// Runs the kernel and compares every result with the float64 reference of `graph`, within the reference's own bounds.
inline void expect_right(const KernelCase& each, const std::vector<Bytes>& inputs, const graph::Graph& graph) {
  std::vector<graph::Tensor> arguments;
  for (std::size_t p = 0; p < inputs.size(); ++p) {
    const graph::TensorType& type = graph.node(graph.parameters()[p]).type();
    arguments.push_back(graph::tensor_from_bytes(type, graph::Box::whole(type.dims), inputs[p]));
  }
  graph::EvaluateOptions options;
  options.bounds = true;
  options.error_model.flush_denormals = true;
  options.error_model.narrow_part = each.narrow_part;
  options.error_model.serial_additions =
      std::max(options.error_model.serial_additions, profiler::serial_additions(each.program));
  const auto reference = graph::evaluate(graph, arguments, options);
  ASSERT_TRUE(reference) << reference.error().message;
  const KernelOutcome outcome = run(each, inputs);
  int wrong = 0;
  for (std::size_t r = 0; r < reference->size(); ++r) {
    const graph::Tensor& want = (*reference)[r];
    const graph::Tensor got = graph::tensor_from_bytes(want.type, want.box, outcome.results[r]);
    for (std::int64_t i = 0; i < want.elements() && wrong < 10; ++i) {
      const bool exact = !want.integers.empty() && want.bound(i) == 0;
      const std::size_t at = i;
      const bool right =
          exact ? want.integers[at] == got.integers[at] : graph::accepts(want.at(i), want.bound(i), got.at(i));
      if (right) continue;
      std::string operands;
      for (const graph::Tensor& argument : arguments) {
        if (argument.elements() == want.elements()) operands += fmt::format(" {:.9g}", argument.at(i));
      }
      ++wrong;
      ADD_FAILURE() << fmt::format("result {} ({}) at {}: {:.9g} instead of {:.9g} ± {:.3g}, from{}", r,
                                   graph::to_string(graph.node(graph.results()[r].node).op), i, got.at(i), want.at(i),
                                   want.bound(i), operands);
    }
  }
  if (wrong > 0) ADD_FAILURE() << each.kernel.source;
}

/// The same with the reference of the kernel's own graph.
inline void expect_right(const KernelCase& each, const std::vector<Bytes>& inputs) {
  expect_right(each, inputs, *each.graph);
}

}  // namespace stitch::codegen::test
