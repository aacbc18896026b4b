#include "client/program_ports.h"

namespace stitch::client {
namespace {

std::string describe(std::string_view what, std::size_t index, const api::ProgramPort& port) {
  return fmt::format("{} {} '{}'", what, index, port.name);
}

Status check_count(const api::Program& program, std::size_t parameters, std::size_t results) {
  if (parameters == program.parameters.size() && results == program.results.size()) return {};
  return make_error(ErrorKind::invalid_argument, "{} inputs and {} outputs were given, the program has {} and {}",
                    parameters, results, program.parameters.size(), program.results.size());
}

Status check_buffer(std::string_view what, std::size_t index, const api::ProgramPort& port,
                    std::span<const std::byte> buffer) {
  const std::size_t wanted = port.type.bytes();
  if (buffer.size() != wanted) {
    return make_error(ErrorKind::invalid_argument, "{}: {} bytes were given, {} has {}", describe(what, index, port),
                      buffer.size(), graph::to_string(port.type), wanted);
  }
  if (reinterpret_cast<std::uintptr_t>(buffer.data()) % buffer_alignment != 0 && !buffer.empty()) {
    return make_error(ErrorKind::invalid_argument, "{}: its memory is not {}-byte aligned", describe(what, index, port),
                      buffer_alignment);
  }
  return {};
}

Status check_address(std::string_view what, std::size_t index, const api::ProgramPort& port, std::uint64_t address) {
  if (address % buffer_alignment == 0 && (address != 0 || port.type.bytes() == 0)) return {};
  return make_error(ErrorKind::invalid_argument, "{}: {:#x} is no {}-byte aligned address of device memory",
                    describe(what, index, port), address, buffer_alignment);
}

}  // namespace

Status check_ports(const api::Program& program, Inputs parameters, Outputs results) {
  STITCH_TRY(check_count(program, parameters.size(), results.size()));
  for (std::size_t i = 0; i < parameters.size(); ++i)
    STITCH_TRY(check_buffer("input", i, program.parameters[i], parameters[i]));
  for (std::size_t i = 0; i < results.size(); ++i)
    STITCH_TRY(check_buffer("output", i, program.results[i], results[i]));
  return {};
}

Status check_ports(const api::Program& program, Addresses parameters, Addresses results) {
  STITCH_TRY(check_count(program, parameters.size(), results.size()));
  for (std::size_t i = 0; i < parameters.size(); ++i)
    STITCH_TRY(check_address("input", i, program.parameters[i], parameters[i]));
  for (std::size_t i = 0; i < results.size(); ++i)
    STITCH_TRY(check_address("output", i, program.results[i], results[i]));
  return {};
}

}  // namespace stitch::client
