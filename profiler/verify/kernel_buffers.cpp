#include "profiler/verify/kernel_buffers.h"

#include <fmt/format.h>

#include <cassert>

#include "base/hash.h"
#include "graph/in_place.h"

namespace stitch::profiler {

std::vector<InputSource> make_inputs(const graph::Graph& graph, Distribution distribution, std::uint64_t seed) {
  const auto ranges = ranges_drawn(graph, distribution);
  std::vector<InputSource> sources;
  for (std::size_t p = 0; p < graph.parameters().size(); ++p)
    sources.emplace_back(graph.node(graph.parameters()[p]).type(), distribution, mix(seed, p), ranges[p]);
  return sources;
}

Result<KernelBuffers> KernelBuffers::allocate(Session& session, const graph::Graph& graph,
                                              const codegen::GeneratedKernel& kernel,
                                              const std::vector<InputSource>& sources) {
  KernelBuffers buffers(session, kernel);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const graph::TensorType& type = graph.node(graph.parameters()[i]).type();
    STITCH_ASSIGN(const auto buffer, session.allocate(fmt::format("parameter {}", i), type.bytes(), sources[i].filler(),
                                                      Access::read_only));
    buffers.inputs_.push_back(buffer);
  }
  for (std::size_t i = 0; i < graph.results().size(); ++i) {
    const std::int64_t bytes = graph.type(graph.results()[i]).bytes();
    const auto updated = graph::updated_parameter(graph, graph.results()[i]);
    const Fill fill = updated ? Fill(sources[*updated].filler()) : Fill(Poison{});
    STITCH_ASSIGN(const auto buffer, session.allocate(fmt::format("result {}", i), bytes, fill, Access::read_write));
    buffers.outputs_.push_back(buffer);
  }
  buffers.inputs_in_place_ = buffers.inputs_;
  buffers.outputs_in_place_ = buffers.outputs_;
  for (const kernel::InPlace& pair : kernel.in_place) {
    BufferHandle &input = buffers.inputs_in_place_[pair.input], &output = buffers.outputs_in_place_[pair.output];
    if (input.id != buffers.inputs_[pair.input].id || output.id != buffers.outputs_[pair.output].id) continue;
    const std::int64_t bytes = graph.type(graph.results()[pair.output]).bytes();
    STITCH_ASSIGN(const auto buffer,
                  session.allocate(fmt::format("result {} over parameter {}", pair.output, pair.input), bytes,
                                   sources[pair.input].filler(), Access::read_write));
    buffers.shared_.push_back(buffer);
    input = output = buffer;
  }
  for (std::size_t i = 0; i < kernel.scratch.size(); ++i) {
    const Fill fill = kernel.scratch[i].zeroed ? Fill(Zero{}) : Fill(Poison{});
    STITCH_ASSIGN(const auto buffer,
                  session.allocate(fmt::format("scratch {}", i), kernel.scratch[i].bytes, fill, Access::read_write));
    buffers.scratch_.push_back(buffer);
  }
  return buffers;
}

KernelBuffers::~KernelBuffers() {
  for (const auto* set : {&inputs_, &outputs_, &shared_, &scratch_}) {
    for (const BufferHandle buffer : *set) (void)session_.free(buffer);
  }
}

std::vector<LaunchValue> KernelBuffers::arguments(bool in_place) const {
  const std::vector<BufferHandle>&inputs = in_place ? inputs_in_place_ : inputs_,
        &outputs = in_place ? outputs_in_place_ : outputs_;
  std::vector<LaunchValue> values;
  for (const codegen::Argument& argument : kernel_.arguments) {
    if (argument.kind == codegen::Argument::Kind::integer) {
      values.emplace_back(argument.integer);
      continue;
    }
    const std::size_t number = argument.buffer.number;
    switch (argument.buffer.kind) {
      case kernel::Buffer::Kind::input: values.emplace_back(inputs[number]); break;
      case kernel::Buffer::Kind::output: values.emplace_back(outputs[number]); break;
      case kernel::Buffer::Kind::scratch: values.emplace_back(scratch_[number]); break;
      case kernel::Buffer::Kind::table: assert(false && "a constant's table is part of the kernel"); break;
    }
  }
  return values;
}

LaunchShape KernelBuffers::shape() const {
  LaunchShape shape{kernel_.blocks, kernel_.threads, kernel_.cluster, kernel_.shared_bytes, kernel_.cooperative, true};
  for (std::size_t a = 0; a < std::min<std::size_t>(kernel_.arguments.size(), 64); ++a) {
    const codegen::Argument& argument = kernel_.arguments[a];
    const bool buffer = argument.kind == codegen::Argument::Kind::buffer;
    if (buffer && kernel::is_unwaited(kernel_.unwaited, argument.buffer)) shape.unwaited |= std::uint64_t{1} << a;
  }
  return shape;
}

}  // namespace stitch::profiler
