#include "client/executor.h"

#include <vector>

namespace stitch::client {
namespace {

Status check_count(std::string_view what, std::size_t given, std::size_t wanted) {
  if (given == wanted) return {};
  return make_error(ErrorKind::invalid_argument, "{} {}s were given, the plan has {}", given, what, wanted);
}

Status check_address(std::string_view what, std::size_t index, std::uint64_t address) {
  if (address % buffer_alignment == 0) return {};
  return make_error(ErrorKind::invalid_argument, "{} {}: address {:#x} is not {}-byte aligned", what, index, address,
                    buffer_alignment);
}

template <class Bytes>
Status check_spans(std::string_view what, std::span<const std::span<Bytes>> given,
                   const std::vector<graph::TensorType>& types) {
  STITCH_TRY(check_count(what, given.size(), types.size()));
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (std::ssize(given[i]) != types[i].bytes()) {
      return make_error(ErrorKind::invalid_argument, "{} {}: {} bytes were given, {} has {}", what, i, given[i].size(),
                        to_string(types[i]), types[i].bytes());
    }
    STITCH_TRY(check_address(what, i, reinterpret_cast<std::uintptr_t>(given[i].data())));
  }
  return {};
}

}  // namespace

Status check_buffers(const api::Plan& plan, Inputs parameters, Outputs results) {
  STITCH_TRY(check_spans("parameter", parameters, plan.parameters));
  return check_spans("result", results, plan.results);
}

Status check_addresses(const api::Plan& plan, Addresses parameters, Addresses results) {
  STITCH_TRY(check_count("parameter", parameters.size(), plan.parameters.size()));
  STITCH_TRY(check_count("result", results.size(), plan.results.size()));
  for (std::size_t i = 0; i < parameters.size(); ++i) STITCH_TRY(check_address("parameter", i, parameters[i]));
  for (std::size_t i = 0; i < results.size(); ++i) STITCH_TRY(check_address("result", i, results[i]));
  return {};
}

}  // namespace stitch::client
