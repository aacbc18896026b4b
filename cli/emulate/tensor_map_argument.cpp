#include "cli/emulate/tensor_map_argument.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace stitch::cli {
namespace {

using emulator::TensorMap;
using emulator::TensorMapSwizzle;
using emulator::TensorMapType;

// In the order of TensorMapType.
constexpr std::array<std::string_view, emulator::tensor_map_types> type_names{
    "u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f32_ftz", "f64", "bf16", "tf32", "tf32_ftz"};

Result<std::uint64_t> whole_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec == std::errc{} && read.ptr == text.data() + text.size()) return value;
  return make_error(ErrorKind::invalid_argument, "'{}' is no whole number", text);
}

std::string_view cut_before(std::string_view& text, char separator) {
  const std::size_t at = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, at);
  text.remove_prefix(std::min(at + 1, text.size()));
  return part;
}

/// "64,128": exactly `count` numbers.
Result<std::vector<std::uint64_t>> numbers(std::string_view key, std::string_view text, std::size_t count) {
  std::vector<std::uint64_t> values;
  while (!text.empty()) {
    STITCH_ASSIGN(const std::uint64_t value, whole_number(cut_before(text, ',')));
    values.push_back(value);
  }
  if (values.size() == count) return values;
  return make_error(ErrorKind::invalid_argument, "a tensor map's {} has {} numbers, {} are wanted", key, values.size(),
                    count);
}

/// "f16[64,128]", and the strides of a dense tensor.
Status parse_tensor(std::string_view text, TensorMap& map) {
  const std::string_view name = cut_before(text, '[');
  const auto* const type = std::ranges::find(type_names, name);
  if (type == type_names.end() || !text.ends_with(']')) {
    return make_error(ErrorKind::invalid_argument, "'{}' is no tensor map's type; f16[64,128] is, also of {}", name,
                      "u8 u16 u32 s32 u64 s64 f32 f32_ftz f64 bf16 tf32 tf32_ftz");
  }
  text.remove_suffix(1);
  map.type = static_cast<TensorMapType>(type - type_names.begin());
  const auto rank = static_cast<std::size_t>(std::ranges::count(text, ',')) + 1;
  if (rank > TensorMap::most_dimensions) {
    return make_error(ErrorKind::invalid_argument, "{} dimensions, a tensor map has 1 to 5", rank);
  }
  STITCH_ASSIGN(const auto sizes, numbers("type", text, rank));
  map.rank = rank;
  map.strides[0] = element_bytes(map.type);
  for (std::size_t d = 0; d < rank; ++d) {
    map.sizes[d] = sizes[d];
    if (d != 0) map.strides[d] = map.strides[d - 1] * map.sizes[d - 1];
  }
  return {};
}

Status parse_option(std::string_view key, std::string_view value, ArgumentPatch& patch, TensorMap& map) {
  if (key == "at") return parse_buffer_address(value, patch);
  if (key == "box" || key == "element_strides") {
    STITCH_ASSIGN(const auto sizes, numbers(key, value, map.rank));
    std::ranges::copy(sizes, (key == "box" ? map.box : map.element_strides).begin());
    return {};
  }
  if (key == "strides") {
    STITCH_ASSIGN(const auto strides, numbers(key, value, map.rank - 1));
    std::ranges::copy(strides, map.strides.begin() + 1);
    return {};
  }
  if (key == "swizzle" && (value == "32" || value == "64" || value == "128")) {
    map.swizzle = value == "32"   ? TensorMapSwizzle::bytes_32
                  : value == "64" ? TensorMapSwizzle::bytes_64
                                  : TensorMapSwizzle::bytes_128;
    return {};
  }
  if (key == "fill" && value == "nan") {
    map.fills_nan = true;
    return {};
  }
  return make_error(ErrorKind::invalid_argument,
                    "'{}={}': a tensor map takes at=NAME+BYTES, box=, strides=, element_strides=, swizzle=32, 64 or "
                    "128, fill=nan",
                    key, value);
}

}  // namespace

Status parse_buffer_address(std::string_view text, ArgumentPatch& patch) {
  patch.base = cut_before(text, '+');
  if (text.empty()) return {};
  STITCH_ASSIGN(patch.offset, whole_number(text));
  return {};
}

Result<ArgumentPatch> parse_tensor_map(std::string_view text) {
  ArgumentPatch patch;
  TensorMap map;
  STITCH_TRY(parse_tensor(cut_before(text, ':'), map));
  while (!text.empty()) {
    std::string_view value = cut_before(text, ':');
    const std::string_view key = cut_before(value, '=');
    STITCH_TRY(parse_option(key, value, patch, map));
  }
  if (patch.base.empty()) {
    return make_error(ErrorKind::invalid_argument, "a tensor map needs at=NAME, the buffer that it is of");
  }
  STITCH_TRY(check(map));
  patch.map = map;
  return patch;
}

}  // namespace stitch::cli
