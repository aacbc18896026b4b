#include "graph/codec/codec_constant.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/hash.h"
#include "graph/literal.h"

namespace stitch::graph {
namespace {

using Json = nlohmann::json;

/// Up to here, elements are written as numbers that people can read.
constexpr std::int64_t most_values = 64;

template <class... Args>
Error bad(const std::string& path, fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorKind::invalid_argument, format, std::forward<Args>(args)...).within(path);
}

Json plain_number(DType dtype, const std::byte* from) {
  if (dtype == DType::pred) return load_integer(dtype, from) != 0;
  if (dtype == DType::u64) return static_cast<std::uint64_t>(load_integer(dtype, from));
  if (!is_floating(dtype)) return load_integer(dtype, from);
  const double value = load_element(dtype, from);
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

std::uint64_t bits_of(DType dtype, const std::byte* from) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, from, byte_size(dtype));
  return bits;
}

Status decode_float(const Json& value, const std::string& path, DType dtype, std::byte* to) {
  if (value.is_number()) {
    const double number = value.get<double>();
    store_element(dtype, number, to);
    if (load_element(dtype, to) != number) {
      return bad(path, "{} is not a value of {}", number, to_string(dtype));
    }
    return {};
  }
  const std::string_view text = value.is_string() ? text_of(value) : std::string_view();
  const double infinity = std::numeric_limits<double>::infinity();
  if (text == "nan") {
    store_element(dtype, std::numeric_limits<double>::quiet_NaN(), to);
  } else if ((text == "inf" || text == "-inf") && dtype != DType::f8e4m3) {
    store_element(dtype, text == "inf" ? infinity : -infinity, to);
  } else {
    return bad(path, "expected a number, \"inf\", \"-inf\", \"nan\" or \"0x…\"");
  }
  return {};
}

Status decode_integer(const Json& value, const std::string& path, DType dtype, std::byte* to) {
  if (dtype == DType::pred) {
    if (!value.is_boolean()) return bad(path, "expected true or false");
    store_integer(dtype, value.get<bool>() ? 1 : 0, to);
    return {};
  }
  if (!value.is_number_integer()) return bad(path, "expected an integer");
  const bool huge = value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{INT64_MAX};
  const auto integer = huge ? static_cast<std::int64_t>(value.get<std::uint64_t>()) : value.get<std::int64_t>();
  store_integer(dtype, integer, to);
  const bool fits =
      dtype == DType::u64 ? value.is_number_unsigned() || integer >= 0 : !huge && load_integer(dtype, to) == integer;
  if (!fits) return bad(path, "{} is out of the range of {}", value.dump(), to_string(dtype));
  return {};
}

/// One element: a number where that restores its bits, else its bits.
Json encode_element(DType dtype, const std::byte* from);

Status decode_element(const Json& value, const std::string& path, DType dtype, std::byte* to) {
  if (value.is_string() && text_of(value).starts_with("0x")) {
    const std::string_view digits = text_of(value).substr(2);
    std::uint64_t bits = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bits, 16);
    const auto width = static_cast<std::size_t>(byte_size(dtype)) * 2;
    if (error != std::errc{} || end != digits.data() + digits.size() || digits.size() != width) {
      return bad(path, "expected {} hexadecimal digits after 0x", width);
    }
    std::memcpy(to, &bits, byte_size(dtype));
    return {};
  }
  return is_floating(dtype) ? decode_float(value, path, dtype, to) : decode_integer(value, path, dtype, to);
}

Json encode_element(DType dtype, const std::byte* from) {
  Json plain = plain_number(dtype, from);
  std::byte back[8] = {};
  const bool restores = decode_element(plain, "", dtype, back).ok() && bits_of(dtype, back) == bits_of(dtype, from);
  if (restores) return plain;
  return fmt::format("0x{:0{}x}", bits_of(dtype, from), byte_size(dtype) * 2);
}

std::string_view as_text(const std::vector<std::byte>& data) {
  return {reinterpret_cast<const char*>(data.data()), data.size()};
}

Status decode_values(const Json& values, const std::string& path, ConstantAttributes& constant) {
  if (!values.is_array()) return bad(path, "expected an array");
  const std::size_t size = byte_size(constant.type.dtype);
  if (values.size() * size != constant.data.size()) {
    return bad(path, "{} values for {}", values.size(), to_string(constant.type));
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    STITCH_TRY(
        decode_element(values[i], fmt::format("{}[{}]", path, i), constant.type.dtype, &constant.data[i * size]));
  }
  return {};
}

Status decode_splat(const Json& value, const std::string& path, ConstantAttributes& constant) {
  std::byte element[8] = {};
  STITCH_TRY(decode_element(value, path, constant.type.dtype, element));
  if (constant.type.elements() > 0) constant.data.assign(element, element + byte_size(constant.type.dtype));
  return {};
}

/// Raw bytes with their hash, which a damaged document does not match.
Status decode_bytes(std::string_view bytes, const Json& document, const std::string& path,
                    ConstantAttributes& constant) {
  if (bytes.size() != constant.data.size()) {
    return bad(path, "{} bytes, {} needs {}", bytes.size(), to_string(constant.type), constant.data.size());
  }
  const auto hash = document.find("hash");
  if (hash == document.end() || !hash->is_string()) return bad(path, "'hash' is missing");
  if (text_of(*hash) != hash_bytes(bytes).hex()) {
    return make_error(ErrorKind::corrupt, "{}: the bytes do not match their hash", path);
  }
  if (!bytes.empty()) std::memcpy(constant.data.data(), bytes.data(), bytes.size());
  return {};
}

}  // namespace

std::string_view text_of(const nlohmann::json& value) { return value.get_ref<const std::string&>(); }

Json encode_data(const ConstantAttributes& constant, Encoding encoding) {
  const DType dtype = constant.type.dtype;
  Json document = Json::object();
  if (constant.type.elements() > 1 && is_splat(constant)) {
    document["splat"] = encode_element(dtype, constant.data.data());
  } else if (constant.type.elements() <= most_values) {
    Json& values = document["values"] = Json::array();
    for (std::int64_t i = 0; i < constant.type.elements(); ++i) {
      values.push_back(encode_element(dtype, element_at(constant, i)));
    }
  } else {
    const std::string_view bytes = as_text(constant.data);
    document["hash"] = hash_bytes(bytes).hex();
    if (encoding == Encoding::json) {
      document["base64"] = base64(bytes);
    } else {
      const auto* first = reinterpret_cast<const std::uint8_t*>(bytes.data());
      document["bytes"] = Json::binary(std::vector<std::uint8_t>(first, first + bytes.size()));
    }
  }
  return document;
}

Status decode_data(const Json& value, const std::string& path, ConstantAttributes& constant) {
  if (!value.is_object()) return bad(path, "expected an object");
  const auto only = [&](std::string_view key, std::size_t keys) { return value.contains(key) && value.size() == keys; };
  if (only("splat", 1)) return decode_splat(value["splat"], path + ".splat", constant);
  constant.data.assign(constant.type.bytes(), std::byte{0});
  if (only("values", 1)) return decode_values(value["values"], path + ".values", constant);
  if (only("base64", 2) && value["base64"].is_string()) {
    const std::optional<std::string> bytes = from_base64(text_of(value["base64"]));
    if (!bytes) return bad(path + ".base64", "not base64");
    return decode_bytes(*bytes, value, path, constant);
  }
  if (only("bytes", 2) && value["bytes"].is_binary()) {
    const auto& bytes = value["bytes"].get_binary();
    return decode_bytes({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, value, path, constant);
  }
  return bad(path, "expected 'splat', 'values', or 'base64' or 'bytes' with 'hash'");
}

namespace {

constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<std::int8_t, 256> alphabet_positions() {
  std::array<std::int8_t, 256> positions{};
  for (auto& position : positions) position = -1;
  for (std::size_t i = 0; i < alphabet.size(); ++i) {
    positions[static_cast<unsigned char>(alphabet[i])] = static_cast<std::int8_t>(i);
  }
  return positions;
}

}  // namespace

std::string base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i)
      group = group << 8 | (i < count ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    for (std::size_t i = 0; i < 4; ++i) text += i <= count ? alphabet[group >> (18 - 6 * i) & 63] : '=';
  }
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  static constexpr auto positions = alphabet_positions();
  if (text.size() % 4 != 0) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (std::size_t at = 0; at < text.size(); at += 4) {
    const bool last = at + 4 == text.size();
    const std::size_t padding = !last ? 0 : text[at + 3] != '=' ? 0 : text[at + 2] != '=' ? 1 : 2;
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      const int position = i + padding >= 4 ? 0 : positions[static_cast<unsigned char>(text[at + i])];
      if (position < 0) return std::nullopt;
      group = group << 6 | static_cast<std::uint32_t>(position);
    }
    if ((group & ((1U << (8 * padding)) - 1)) != 0) return std::nullopt;  // bits that no encoder sets
    for (std::size_t i = 0; i + padding < 3; ++i) bytes += static_cast<char>(group >> (16 - 8 * i) & 255);
  }
  return bytes;
}

}  // namespace stitch::graph
