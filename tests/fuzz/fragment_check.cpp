#include "tests/fuzz/fragment_check.h"

#include <string>

#include "graph/canonical.h"
#include "graph/codec/codec.h"
#include "graph/verify.h"
#include "tests/fuzz/fuzz_target.h"

namespace stitch::fuzz {
namespace {

/// So small that what takes long is a fault.
graph::DecodeLimits limits() {
  graph::DecodeLimits limits;
  limits.nodes = 1 << 12;
  limits.constant_bytes = 1 << 20;
  return limits;
}

void check_round_trip(const graph::Graph& decoded, graph::Encoding encoding) {
  const std::string once = graph::encode(decoded, encoding);
  const Result<graph::Graph> again = graph::decode(once, encoding, limits());
  promise(again.ok(), "what was decoded is decoded again");
  promise(graph::encode(*again, encoding) == once, "and is the same");
}

}  // namespace

void check_fragment(std::string_view bytes, graph::Encoding encoding) {
  const Result<graph::Graph> decoded = graph::decode(bytes, encoding, limits());
  if (!decoded) {
    promise(!decoded.error().message.empty(), "a refusal says why");
    promise(decoded.error().kind != ErrorKind::internal, "a refusal is the input's fault");
    return;
  }
  promise(graph::verify(*decoded).ok(), "what is decoded is verified");
  check_round_trip(*decoded, graph::Encoding::json);
  check_round_trip(*decoded, graph::Encoding::cbor);
  const Result<graph::CanonicalForm> form = graph::canonicalise(*decoded);
  promise(form.ok() || !form.error().message.empty(), "a refusal says why");
  if (form) promise(graph::verify(form->graph).ok(), "a canonical form is a graph");
}

}  // namespace stitch::fuzz
