#include "cli/emulate/kernel_case.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "graph/literal.h"

namespace stitch::cli {
namespace {

using emulator::Buffer;
using emulator::Contents;

Status check_parameters(const KernelCase& kernel, const emulator::Program& program) {
  const auto& parameters = program.parameters();
  if (kernel.arguments.size() != parameters.size()) {
    std::vector<std::string> sizes;
    for (const emulator::KernelParameter& parameter : parameters) sizes.push_back(fmt::format("{}", parameter.bytes));
    return make_error(ErrorKind::invalid_argument, "kernel {} takes {} arguments (of {} bytes), {} are given",
                      program.name(), parameters.size(), fmt::join(sizes, ", "), kernel.arguments.size());
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const KernelArgument& argument = kernel.arguments[i];
    if (argument.parameter_bytes() == parameters[i].bytes) continue;
    return make_error(ErrorKind::invalid_argument, "argument {} ({}) takes {} bytes, the kernel's parameter {} has {}",
                      i, argument.text, argument.parameter_bytes(), parameters[i].name, parameters[i].bytes);
  }
  return {};
}

/// One element, exactly where it is an integer's.
struct Element {
  double real = 0;
  std::int64_t whole = 0;
};

Element element_of(graph::DType dtype, const std::byte* from) {
  if (graph::is_floating(dtype)) return {.real = graph::load_element(dtype, from)};
  const std::int64_t whole = graph::load_integer(dtype, from);
  return {.real = static_cast<double>(whole), .whole = whole};
}

/// Difference as a part of what is allowed: 0 where there is none, infinity where none is allowed.
double excess(const Expectation& expected, const Element& found, const Element& wanted) {
  if (!graph::is_floating(expected.dtype) && found.whole == wanted.whole) return 0;
  if (std::isnan(found.real) || std::isnan(wanted.real)) {
    return std::isnan(found.real) && std::isnan(wanted.real) ? 0 : std::numeric_limits<double>::infinity();
  }
  if (graph::is_floating(expected.dtype) && found.real == wanted.real) return 0;
  const double allowed = expected.absolute + expected.relative * std::abs(wanted.real);
  const double difference = std::abs(found.real - wanted.real);
  if (allowed == 0 || !std::isfinite(difference)) return std::numeric_limits<double>::infinity();
  return difference / allowed;
}

Comparison compare_elements(const Expectation& expected, std::span<const std::byte> contents) {
  Comparison comparison;
  comparison.argument = expected.argument;
  const std::int64_t size = graph::byte_size(expected.dtype);
  comparison.compared = expected.values.size() / size;
  for (std::int64_t i = 0; i < comparison.compared; ++i) {
    const std::int64_t at = i * expected.stride;
    const Element found = element_of(expected.dtype, contents.data() + at * size);
    const Element wanted = element_of(expected.dtype, expected.values.data() + i * size);
    const double part = excess(expected, found, wanted);
    comparison.worst = std::max(comparison.worst, part);
    if (part <= 1) continue;
    if (comparison.wrong++ == 0) {
      comparison.first_wrong = fmt::format("element {} is {}, expected {}", at, found.real, wanted.real);
    }
  }
  return comparison;
}

Status check_expectation(const Expectation& expected, const std::vector<KernelArgument>& arguments) {
  const auto argument = std::ranges::find(arguments, expected.argument, &KernelArgument::name);
  if (argument == arguments.end() || argument->kind != KernelArgument::Kind::buffer) {
    return make_error(ErrorKind::invalid_argument, "'{}' is expected to hold something, but is no buffer",
                      expected.argument);
  }
  const std::uint64_t size = graph::byte_size(expected.dtype);
  if (expected.stride < 1) return make_error(ErrorKind::invalid_argument, "'{}': a stride below 1", expected.argument);
  const std::uint64_t count = expected.values.size() / size;
  if (count == 0 || ((count - 1) * expected.stride + 1) * size > argument->buffer_bytes) {
    return make_error(ErrorKind::invalid_argument,
                      "'{}' holds {} bytes, which does not fit {} expected elements of {} at a stride of {}",
                      expected.argument, argument->buffer_bytes, count, graph::to_string(expected.dtype),
                      expected.stride);
  }
  return {};
}

}  // namespace

Result<std::vector<std::byte>> ExecutedKernel::contents(const std::string& argument) const {
  const auto found = std::ranges::find(buffers_, argument, &NamedBuffer::name);
  if (found == buffers_.end()) {
    std::vector<std::string> names;
    for (const NamedBuffer& buffer : buffers_) names.push_back(buffer.name);
    return make_error(ErrorKind::not_found, "no buffer argument is named '{}'; there are: {}", argument,
                      fmt::join(names, ", "));
  }
  std::vector<std::byte> bytes(found->buffer.bytes);
  STITCH_TRY(memory_.read(found->buffer.address, bytes));
  return bytes;
}

bool ExecutedKernel::right() const {
  return report.clean() && std::ranges::all_of(comparisons, [](const Comparison& one) { return one.wrong == 0; });
}

Result<std::uint64_t> ExecutedKernel::address_of(const std::string& argument) const {
  const auto found = std::ranges::find(buffers_, argument, &NamedBuffer::name);
  if (found == buffers_.end()) return make_error(ErrorKind::invalid_argument, "no buffer is named '{}'", argument);
  return found->buffer.address;
}

Result<std::vector<std::byte>> ExecutedKernel::value_of(const KernelArgument& argument) const {
  std::vector<std::byte> bytes = argument.bytes;
  for (const ArgumentPatch& patch : argument.patches) {
    STITCH_ASSIGN(std::uint64_t address, address_of(patch.base));
    address += patch.offset;
    if (!patch.map) {
      std::memcpy(bytes.data() + patch.at, &address, sizeof(address));
      continue;
    }
    emulator::TensorMap map = *patch.map;
    map.address = address;
    STITCH_TRY(check(map));
    encode_tensor_map(map, std::span(bytes).subspan(patch.at).first<emulator::TensorMap::bytes>());
  }
  return bytes;
}

Result<emulator::ParameterBlock> ExecutedKernel::parameters_of(const KernelCase& kernel,
                                                               const emulator::Program& program) const {
  emulator::ParameterBlock parameters;
  auto buffer = buffers_.begin();
  for (std::size_t i = 0; i < kernel.arguments.size(); ++i) {
    const KernelArgument& argument = kernel.arguments[i];
    if (argument.kind == KernelArgument::Kind::buffer) {
      parameters.add((buffer++)->buffer);
      continue;
    }
    const Result<std::vector<std::byte>> value = value_of(argument);
    if (!value) return value.error().within(fmt::format("argument {} ({})", i, argument.text));
    parameters.add_bytes(*value, program.parameters()[i].alignment);
  }
  return parameters;
}

Result<ExecutedKernel> execute(const KernelCase& kernel, const emulator::LaunchOptions& options) {
  STITCH_ASSIGN(const emulator::Program program, emulator::Program::load(kernel.ptx, kernel.entry));
  STITCH_TRY(check_parameters(kernel, program));
  for (const Expectation& expected : kernel.expectations) STITCH_TRY(check_expectation(expected, kernel.arguments));
  ExecutedKernel executed;
  // A structure may hold the address of a buffer that only a later argument names.
  for (const KernelArgument& argument : kernel.arguments) {
    if (argument.kind != KernelArgument::Kind::buffer) continue;
    const Contents contents = !argument.initialised    ? Contents::uninitialised()
                              : argument.bytes.empty() ? Contents::zero()
                                                       : Contents::bytes(argument.bytes);
    STITCH_ASSIGN(const Buffer buffer, executed.memory_.allocate(argument.name, argument.buffer_bytes, contents));
    executed.buffers_.push_back({argument.name, buffer});
  }
  STITCH_ASSIGN(const emulator::ParameterBlock parameters, executed.parameters_of(kernel, program));
  STITCH_ASSIGN(executed.report, launch(program, kernel.config, parameters.bytes(), executed.memory_, options));
  for (const Expectation& expected : kernel.expectations) {
    STITCH_ASSIGN(const std::vector<std::byte> contents, executed.contents(expected.argument));
    executed.comparisons.push_back(compare_elements(expected, contents));
  }
  return executed;
}

}  // namespace stitch::cli
