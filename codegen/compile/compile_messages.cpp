#include "codegen/compile/compile_messages.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace stitch::codegen {
namespace {

using Document = nlohmann::json;

std::string bytes_of(const Document& document) {
  const std::vector<std::uint8_t> bytes = Document::to_cbor(document);
  return {bytes.begin(), bytes.end()};
}

/// Any bytes: a log or a source need not be UTF-8.
Document binary(std::string_view text) { return Document::binary(std::vector<std::uint8_t>(text.begin(), text.end())); }

std::string text_of(const Document& document) {
  const auto& bytes = document.get_binary();
  return {bytes.begin(), bytes.end()};
}

Document document_of(const Error& error) {
  return {{"kind", static_cast<int>(error.kind)}, {"message", binary(error.message)}};
}

Error error_of(const Document& document) {
  const int kind = document.at("kind").get<int>();
  const bool known = kind >= 0 && kind <= static_cast<int>(ErrorKind::internal);
  return {known ? static_cast<ErrorKind>(kind) : ErrorKind::internal, text_of(document.at("message"))};
}

/// What `read` makes of the document that the bytes are.
template <class Read>
auto decode(std::string_view bytes, std::string_view what, Read read) -> decltype(read(Document())) {
  const Document document = Document::from_cbor(bytes, true, false);
  if (document.is_discarded()) return make_error(ErrorKind::parse, "{}: no CBOR", what);
  try {
    return read(document);
  } catch (const Document::exception& exception) {
    return make_error(ErrorKind::parse, "{}: {}", what, exception.what());
  }
}

}  // namespace

SentCompilation::SentCompilation(const NvrtcInput& input)
    : source(input.source), name(input.name), options(input.options), timeout_seconds(input.timeout_seconds) {
  for (const NvrtcInput::Header& header : input.headers) headers.emplace_back(header.name, header.contents);
}

NvrtcInput SentCompilation::input() const {
  NvrtcInput input;
  input.source = source;
  input.name = name;
  input.options = options;
  input.timeout_seconds = timeout_seconds;
  for (const auto& [header, contents] : headers) input.headers.push_back({header.c_str(), contents.c_str()});
  return input;
}

std::string encode(const Result<CompilerGreeting>& greeting) {
  if (!greeting) return bytes_of({{"error", document_of(greeting.error())}});
  const NvrtcFacts& facts = greeting->facts;
  return bytes_of({{"protocol", greeting->protocol},
                   {"toolkit", facts.toolkit},
                   {"major", facts.major},
                   {"minor", facts.minor},
                   {"path", binary(facts.path.native())},
                   {"architectures", facts.architectures},
                   {"unconfined", greeting->unconfined}});
}

Result<CompilerGreeting> decode_greeting(std::string_view bytes) {
  return decode(bytes, "a compiler's greeting", [](const Document& document) -> Result<CompilerGreeting> {
    if (const auto error = document.find("error"); error != document.end()) return error_of(*error);
    CompilerGreeting greeting;
    document.at("protocol").get_to(greeting.protocol);
    if (greeting.protocol != compile_protocol_version) {
      return make_error(ErrorKind::version_mismatch, "stitch-compiler speaks protocol {}, this program {}",
                        greeting.protocol, compile_protocol_version);
    }
    document.at("toolkit").get_to(greeting.facts.toolkit);
    document.at("major").get_to(greeting.facts.major);
    document.at("minor").get_to(greeting.facts.minor);
    greeting.facts.path = text_of(document.at("path"));
    document.at("architectures").get_to(greeting.facts.architectures);
    document.at("unconfined").get_to(greeting.unconfined);
    return greeting;
  });
}

std::string encode(const SentCompilation& compilation) {
  Document headers = Document::array();
  for (const auto& [name, contents] : compilation.headers) headers.push_back({binary(name), binary(contents)});
  Document options = Document::array();
  for (const std::string& option : compilation.options) options.push_back(binary(option));
  return bytes_of({{"source", binary(compilation.source)},
                   {"name", binary(compilation.name)},
                   {"headers", std::move(headers)},
                   {"options", std::move(options)},
                   {"timeout_seconds", compilation.timeout_seconds}});
}

Result<SentCompilation> decode_compilation(std::string_view bytes) {
  return decode(bytes, "a compilation", [](const Document& document) -> Result<SentCompilation> {
    SentCompilation compilation;
    compilation.source = text_of(document.at("source"));
    compilation.name = text_of(document.at("name"));
    for (const Document& header : document.at("headers")) {
      compilation.headers.emplace_back(text_of(header.at(0)), text_of(header.at(1)));
    }
    for (const Document& option : document.at("options")) compilation.options.push_back(text_of(option));
    document.at("timeout_seconds").get_to(compilation.timeout_seconds);
    return compilation;
  });
}

std::string encode(const CompileReply& reply) {
  if (!reply.output) return bytes_of({{"error", document_of(reply.output.error())}, {"peak_bytes", reply.peak_bytes}});
  return bytes_of({{"compiled", reply.output->compiled},
                   {"log", binary(reply.output->log)},
                   {"ptx", binary(reply.output->ptx)},
                   {"cubin", binary(reply.output->cubin)},
                   {"peak_bytes", reply.peak_bytes}});
}

Result<CompileReply> decode_compile_reply(std::string_view bytes) {
  return decode(bytes, "a compiler's reply", [](const Document& document) -> Result<CompileReply> {
    CompileReply reply;
    document.at("peak_bytes").get_to(reply.peak_bytes);
    if (const auto error = document.find("error"); error != document.end()) {
      reply.output = error_of(*error);
      return reply;
    }
    document.at("compiled").get_to(reply.output->compiled);
    reply.output->log = text_of(document.at("log"));
    reply.output->ptx = text_of(document.at("ptx"));
    reply.output->cubin = text_of(document.at("cubin"));
    return reply;
  });
}

}  // namespace stitch::codegen
