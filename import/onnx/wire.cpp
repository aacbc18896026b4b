#include "import/onnx/wire.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>

#include <cstdint>
#include <map>
#include <optional>

namespace stitch::import::onnx {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

constexpr int deepest = 100;  // protobuf's own limit

/// A walk over `text`; offsets count from its beginning.
class Walk {
 public:
  explicit Walk(std::string_view text) : text_(text) {}

  struct Damage {
    std::size_t offset;
    std::string path;
  };

  std::optional<Damage> message(const Descriptor* type, std::size_t at, std::size_t end, const std::string& path,
                                int depth) {
    std::map<int, int> counts;
    while (at < end) {
      const std::size_t field_start = at;
      const std::optional<std::uint64_t> tag = varint(at, end);
      if (!tag || (*tag >> 3) == 0) return Damage{field_start, path};
      const FieldDescriptor* field = type == nullptr ? nullptr : type->FindFieldByNumber(static_cast<int>(*tag >> 3));
      std::string inner = path;
      if (field != nullptr) {
        inner += fmt::format("{}{}", path.empty() ? "" : ".", field->name());
        if (field->is_repeated()) inner += fmt::format("[{}]", counts[field->number()]++);
      }
      if (std::optional<Damage> damage = value(static_cast<int>(*tag & 7), field, at, end, inner, depth)) return damage;
    }
    return std::nullopt;
  }

 private:
  /// Skips one value, descending into messages; moves `at` behind it.
  std::optional<Damage> value(int wire_type, const FieldDescriptor* field, std::size_t& at, std::size_t end,
                              const std::string& path, int depth) {
    switch (wire_type) {
      case 0: return varint(at, end) ? std::nullopt : std::optional(Damage{at, path});
      case 1: return skip(8, at, end, path);
      case 5: return skip(4, at, end, path);
      case 2: {
        const std::size_t start = at;
        const std::optional<std::uint64_t> length = varint(at, end);
        if (!length || *length > end - at) return Damage{start, path};
        const std::size_t stop = at + static_cast<std::size_t>(*length);
        if (field != nullptr && field->type() == FieldDescriptor::TYPE_MESSAGE) {
          if (depth >= deepest) return Damage{start, path};
          if (std::optional<Damage> damage = message(field->message_type(), at, stop, path, depth + 1)) return damage;
        }
        at = stop;
        return std::nullopt;
      }
      default: return Damage{at, path};
    }
  }

  static std::optional<Damage> skip(std::size_t bytes, std::size_t& at, std::size_t end, const std::string& path) {
    if (bytes > end - at) return Damage{at, path};
    at += bytes;
    return std::nullopt;
  }

  std::optional<std::uint64_t> varint(std::size_t& at, std::size_t end) {
    std::uint64_t result = 0;
    std::size_t next = at;
    for (int shift = 0; shift < 70 && next < end; shift += 7) {
      const auto byte = static_cast<unsigned char>(text_[next++]);
      if (shift < 64) result |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) {
        at = next;
        return result;
      }
    }
    return std::nullopt;
  }

  std::string_view text_;
};

}  // namespace

std::string locate_damage(std::string_view bytes, const Descriptor& message) {
  const std::optional<Walk::Damage> damage = Walk(bytes).message(&message, 0, bytes.size(), "", 0);
  if (!damage) return fmt::format("byte {}", bytes.size());
  return damage->path.empty() ? fmt::format("byte {}", damage->offset)
                              : fmt::format("byte {}, in {}", damage->offset, damage->path);
}

}  // namespace stitch::import::onnx
