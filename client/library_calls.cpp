#include "client/library_calls.h"

#include "graph/calls/strided_matmul.h"
#include "library/call_memory.h"

namespace stitch::client {

static_assert(buffer_alignment == library::operand_alignment);

Status LibraryCalls::prepare(const std::vector<api::ProgramCall>& calls) {
  for (const api::ProgramCall& call : calls) {
    DeviceCall& made = calls_.emplace_back();
    numbers_.push_back(-1);
    const auto number = computed_.prepare(call.graph);
    if (number) {
      numbers_.back() = *number;
      made.launches = computed_.launches(*number);
      continue;
    }
    const Error& why = number.error();
    if (why.kind != ErrorKind::unsupported && why.kind != ErrorKind::unavailable) return why.within(call.description);
    // Programs for streams leave products of matrices to cuBLASLt, and nothing else to any library.
    const char* products = graph::describe_matmul(call.graph).ok() ? "ours" : "stream";
    made.covered =
        make_error(ErrorKind::unsupported, "{}; programs made with --products {} do without", why.message, products);
  }
  return {};
}

}  // namespace stitch::client
