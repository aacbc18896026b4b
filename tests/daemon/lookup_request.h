#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "api/protocol.h"
#include "graph/codec/codec.h"
#include "tests/daemon/raw_http.h"

namespace stitch::daemon::raw {

/// The answer of a daemon to a look-up with `improve`, sent as JSON.
inline Answer look_up(const std::filesystem::path& socket, const graph::Graph& fragment, const std::string& name,
                      int deadline_ms) {
  const api::LookupRequest request{fragment, name, deadline_ms, true};
  const std::string body =
      api::encode_document(api::to_document(request, graph::Encoding::json), graph::Encoding::json);
  return raw::request(socket, "POST", "/v1/lookup", body, "Content-Type: application/json\r\n");
}

/// The document of a look-up whose constant is a few bytes here and four for each of so many elements in memory.
inline std::string splat_lookup(std::int64_t elements) {
  return fmt::format(R"({{"fragment":{{"format":"stitch-graph","version":1,"nodes":[)"
                     R"({{"op":"parameter","attributes":{{"type":"f32[{0}]"}}}},)"
                     R"({{"op":"constant","attributes":{{"type":"f32[{0}]","data":{{"splat":1.5}}}}}},)"
                     R"({{"op":"add","operands":[0,1]}}],"results":[2]}},"deadline_ms":0,"improve":false}})",
                     elements);
}

}  // namespace stitch::daemon::raw
