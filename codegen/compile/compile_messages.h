#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "codegen/compile/nvrtc.h"

// What stitch-compiler and its parent say to each other over the child's standard streams, as CBOR in frames
// (base/frame.h): the child greets once it has NVRTC, then answers each request, one at a time. The parent is
// codegen/compile/compiler_pool, the child codegen/compile/compiler_main.
namespace stitch::codegen {

/// Both sides must speak the same; counted up with every change.
inline constexpr int compile_protocol_version = 1;

/// The child's first words.
struct CompilerGreeting {
  int protocol = compile_protocol_version;
  NvrtcFacts facts;
  std::vector<std::string> unconfined;  ///< what the child could not give up (base/confinement.h), in words
};

/// A compilation as it travels: what NvrtcInput refers to, by value.
struct SentCompilation {
  std::string source, name;
  std::vector<std::pair<std::string, std::string>> headers;  ///< name, contents
  std::vector<std::string> options;
  double timeout_seconds = 0;
  SentCompilation() = default;
  explicit SentCompilation(const NvrtcInput& input);
  /// Refers to this one.
  [[nodiscard]] NvrtcInput input() const;
};

struct CompileReply {
  Result<NvrtcOutput> output = NvrtcOutput();
  std::int64_t peak_bytes = 0;  ///< of the child's memory, since it began
};

std::string encode(const Result<CompilerGreeting>& greeting);
std::string encode(const SentCompilation& compilation);
std::string encode(const CompileReply& reply);
/// The greeting, or why there will be none. Errors: parse (no such message), version_mismatch; the child's own.
Result<CompilerGreeting> decode_greeting(std::string_view bytes);
/// Errors: parse.
Result<SentCompilation> decode_compilation(std::string_view bytes);
Result<CompileReply> decode_compile_reply(std::string_view bytes);

}  // namespace stitch::codegen
