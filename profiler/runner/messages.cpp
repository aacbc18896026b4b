#include <algorithm>
#include <array>

#include "profiler/device/device_document.h"
#include "profiler/runner/message_fields.h"

// Requests and replies as bytes and back, by the fields that profiler/runner/message_fields.h lists.
namespace stitch::profiler {

// ---- types that are written as something else

Json write_value(Access access, const DocumentForm&) { return access == Access::read_only; }
void read_value(const Found& found, Access& into) {
  bool read_only = false;
  found.read(read_only);
  into = read_only ? Access::read_only : Access::read_write;
}

void read_value(const Found& found, LaunchValue& into) {
  if (found.json.is_object()) {
    found.read(into.emplace<BufferHandle>());
  } else {
    found.read(into.emplace<std::int64_t>());
  }
}

Json write_value(const Poison& poison, const DocumentForm&) { return static_cast<int>(poison.pattern); }
void read_value(const Found& found, Poison& into) {
  int pattern = 0;
  found.read(pattern);
  into.pattern = static_cast<std::byte>(pattern);
}

Json write_value(Zero, const DocumentForm&) { return true; }
void read_value(const Found&, Zero&) {}

void read_value(const Found& found, Distribution& into) {
  std::string name;
  found.read(name);
  for (const Distribution one : default_distributions()) {
    if (to_string(one) != name) continue;
    into = one;
    return;
  }
  found.fail(make_error(ErrorKind::invalid_argument, "no distribution '{}'", name));
}

FlatRanges::FlatRanges(const std::vector<WrittenRange>& ranges) {
  for (const WrittenRange& range : ranges) numbers.insert(numbers.end(), {range.offset, range.bytes});
}
FlatRanges::operator std::vector<WrittenRange>() && {
  std::vector<WrittenRange> ranges;
  for (std::size_t i = 0; i + 1 < numbers.size(); i += 2) ranges.push_back({numbers[i], numbers[i + 1]});
  return ranges;
}
Json write_value(const FlatRanges& ranges, const DocumentForm&) { return ranges.numbers; }
void read_value(const Found& found, FlatRanges& into) { found.read(into.numbers); }

namespace {

template <class T>
void take(const Found& found, Result<T> read, T& into) {
  if (read) {
    into = *std::move(read);
  } else {
    found.fail(read.error());
  }
}

}  // namespace

Json write_value(const MeasureOptions& options, const DocumentForm&) { return to_document(options); }
void read_value(const Found& found, MeasureOptions& into) { take(found, measure_options_from(found.json), into); }
Json write_value(const Measurement& measurement, const DocumentForm&) { return to_document(measurement); }
void read_value(const Found& found, Measurement& into) { take(found, measurement_from(found.json), into); }
Json write_value(const DeviceIdentity& identity, const DocumentForm&) { return to_document(identity); }
void read_value(const Found& found, DeviceIdentity& into) { into = identity_from(found.json); }

// ---- what must hold between fields

namespace {

void require(Reader& reader, const Status& status) {
  if (!status) reader.fail(status.error());
}

}  // namespace

void finish_reading(Reader& reader, const SentValues& values) {
  if (!values.range || values.range->low <= values.range->high) return;
  reader.fail(make_error(ErrorKind::invalid_argument, "an empty range of values"));
}

void finish_reading(Reader& reader, const AllocateRequest& allocate) {
  std::int64_t held = allocate.bytes;
  if (const auto* source = std::get_if<InputSource>(&allocate.fill)) held = source->type().bytes();
  if (const auto* bytes = std::get_if<std::string>(&allocate.fill)) held = std::ssize(*bytes);
  if (allocate.bytes >= 0 && held == allocate.bytes) return;
  reader.fail(make_error(ErrorKind::invalid_argument, "buffer '{}' of {} bytes, filled with {}", allocate.name,
                         allocate.bytes, held));
}

void finish_reading(Reader& reader, const ReadRequest& read) {
  if (read.bytes >= 0 && read.bytes <= most_data_bytes) return;
  reader.fail(make_error(ErrorKind::invalid_argument, "{} bytes to read, at most {} in one message", read.bytes,
                         most_data_bytes));
}

void finish_reading(Reader& reader, const PrepareRequest& prepare) {
  if (prepare.call.results().size() == 1) return;
  reader.fail(make_error(ErrorKind::invalid_argument, "a call with {} results", prepare.call.results().size()));
}

void finish_reading(Reader& reader, const LaunchRequest& launch) { require(reader, check_shape(launch.launch.shape)); }
void finish_reading(Reader& reader, const MeasureRequest& measure) { require(reader, check_task(measure.task)); }

// ---- messages

namespace {

/// A message's two words: what it is, by the member that names its body, and its bodies' names in the variant's order.
struct RequestWords {
  static constexpr const char* what = "request";
  static constexpr std::array<std::string_view, 12> names = {"hello",    "open",    "close",    "load",
                                                             "allocate", "free",    "read",     "write",
                                                             "launch",   "measure", "shutdown", "prepare"};
};
struct ReplyWords {
  static constexpr const char* what = "reply";
  static constexpr std::array<std::string_view, 10> names = {"done", "welcome",  "opened",   "loaded",   "allocated",
                                                             "data", "launched", "measured", "prepared", "error"};
};

template <class Words, class Message>
std::string encode_message(const Message& message) {
  static_assert(Words::names.size() == std::variant_size_v<decltype(message.body)>);
  Json document = std::visit([](const auto& body) { return graph::fields::document_of(body); }, message.body);
  document.update(graph::fields::document_of(message));
  document[Words::what] = Words::names[message.body.index()];
  std::string bytes;
  Json::to_cbor(document, bytes);
  return bytes;
}

/// Makes the variant hold its `index`-th type.
template <std::size_t I = 0, class Variant>
void hold(Variant& body, std::size_t index) {
  if constexpr (I < std::variant_size_v<Variant>) {
    if (index == I) {
      body.template emplace<I>();
    } else {
      hold<I + 1>(body, index);
    }
  }
}

template <class Words, class Message>
Status read_message(const Json& document, std::string_view name, Message& message) {
  STITCH_TRY(graph::fields::read_document(document, message));
  const auto named = std::find(Words::names.begin(), Words::names.end(), name);
  if (named == Words::names.end()) return make_error(ErrorKind::parse, "no such {}", Words::what);
  hold(message.body, static_cast<std::size_t>(named - Words::names.begin()));
  return std::visit([&](auto& body) { return graph::fields::read_document(document, body); }, message.body);
}

template <class Words, class Message>
Result<Message> decode_message(std::string_view bytes) {
  std::string name = "unnamed";
  try {
    auto document = graph::parse_document(bytes, graph::Encoding::cbor, most_frame_bytes);
    if (!document) return document.error().within("message");
    if (!document->is_object()) return make_error(ErrorKind::parse, "message: not an object");
    name = document->at(Words::what).template get<std::string>();
    Message message;
    const Status read = read_message<Words>(*document, name, message);
    if (!read) return read.error().within(fmt::format("{} '{}'", Words::what, name));
    return message;
  } catch (const Json::exception& exception) {
    return make_error(ErrorKind::parse, "{} '{}': {}", Words::what, name, exception.what());
  }
}

}  // namespace

std::string_view name_of(const Request& request) { return RequestWords::names[request.body.index()]; }

std::string encode(const Request& request) { return encode_message<RequestWords>(request); }
std::string encode(const Reply& reply) { return encode_message<ReplyWords>(reply); }
Result<Request> decode_request(std::string_view bytes) { return decode_message<RequestWords, Request>(bytes); }
Result<Reply> decode_reply(std::string_view bytes) { return decode_message<ReplyWords, Reply>(bytes); }

}  // namespace stitch::profiler
