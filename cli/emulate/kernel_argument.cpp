#include "cli/emulate/kernel_argument.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "base/hash.h"
#include "base/npy.h"
#include "graph/codec/codec_constant.h"
#include "graph/literal.h"

namespace stitch::cli {
namespace {

using graph::DType;

/// HLO's names, and i32 for s32 as CUDA and Triton have it.
std::optional<DType> type_named(std::string_view name) {
  if (name == "bool") return DType::pred;
  if (name.starts_with('i')) return graph::dtype_from_name(fmt::format("s{}", name.substr(1)));
  return graph::dtype_from_name(name);
}

template <class T>
std::optional<T> number(std::string_view text, int base = 10) {
  T value{};
  std::from_chars_result read{};
  if constexpr (std::is_floating_point_v<T>) {
    read = std::from_chars(text.data(), text.data() + text.size(), value);
  } else {
    read = std::from_chars(text.data(), text.data() + text.size(), value, base);
  }
  if (read.ec != std::errc{} || read.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Everything before the separator; `text` keeps what follows it.
std::string_view take_until(std::string_view& text, char separator) {
  const std::size_t at = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, at);
  text.remove_prefix(std::min(at + 1, text.size()));
  return part;
}

constexpr std::uint64_t most_argument_bytes = std::uint64_t{32} << 30;

/// "f32[64,128]" into the argument's type, shape and size.
Status parse_array_type(std::string_view text, KernelArgument& argument) {
  const std::size_t open = text.find('[');
  const auto dtype = type_named(text.substr(0, open));
  if (!dtype) {
    return make_error(ErrorKind::invalid_argument, "'{}' is no element type; f32, bf16, s32 and so on are",
                      text.substr(0, open));
  }
  if (open == std::string_view::npos || !text.ends_with(']')) {
    return make_error(ErrorKind::invalid_argument, "expected an array's type, as f32[64,128], not '{}'", text);
  }
  argument.dtype = *dtype;
  argument.buffer_bytes = graph::byte_size(*dtype);
  std::string_view sizes = text.substr(open + 1, text.size() - open - 2);
  while (!sizes.empty()) {
    const std::string_view part = take_until(sizes, ',');
    const auto size = number<std::int64_t>(part);
    if (!size || *size < 0) return make_error(ErrorKind::invalid_argument, "'{}' in '{}' is no size", part, text);
    if (*size != 0 && argument.buffer_bytes > most_argument_bytes / *size) {
      return make_error(ErrorKind::invalid_argument, "{} takes more than 32 GiB", text);
    }
    argument.shape.push_back(*size);
    argument.buffer_bytes *= *size;
  }
  return {};
}

void set_contents(KernelArgument& argument, std::string_view bytes) {
  argument.initialised = true;
  argument.bytes.resize(bytes.size());
  std::ranges::transform(bytes, argument.bytes.begin(), [](char c) { return static_cast<std::byte>(c); });
}

Status parse_random(std::string_view options, KernelArgument& argument) {
  std::uint64_t seed = 0;
  const bool floating = graph::is_floating(argument.dtype);
  double low = floating ? -2 : 0;
  double high = floating ? 2 : 100;
  while (!options.empty()) {
    std::string_view value = take_until(options, ':');
    const std::string_view key = take_until(value, '=');
    const auto real = number<double>(value);
    const auto whole = number<std::uint64_t>(value);
    if (key == "seed" && whole) {
      seed = *whole;
    } else if (key == "low" && real) {
      low = *real;
    } else if (key == "high" && real) {
      high = *real;
    } else {
      return make_error(ErrorKind::invalid_argument, "'{}={}': random arrays take seed=N, low=X and high=X", key,
                        value);
    }
  }
  if (!(low < high)) return make_error(ErrorKind::invalid_argument, "low={} is not below high={}", low, high);
  const std::int64_t count = argument.buffer_bytes / graph::byte_size(argument.dtype);
  argument.bytes = random_contents(argument.dtype, count, seed, low, high);
  argument.initialised = true;
  return {};
}

/// out:, zero:, random: and data:, after the colon.
Status parse_array(std::string_view form, std::string_view rest, KernelArgument& argument) {
  argument.kind = KernelArgument::Kind::buffer;
  STITCH_TRY(parse_array_type(take_until(rest, ':'), argument));
  if (form == "random") return parse_random(rest, argument);
  if (form == "data") {
    const auto decoded = graph::from_base64(rest);
    if (!decoded) return make_error(ErrorKind::invalid_argument, "its data are no base64 text");
    if (decoded->size() != argument.buffer_bytes) {
      return make_error(ErrorKind::invalid_argument, "{} bytes of data, its type takes {}", decoded->size(),
                        argument.buffer_bytes);
    }
    set_contents(argument, *decoded);
    return {};
  }
  if (!rest.empty()) return make_error(ErrorKind::invalid_argument, "'{}' is too much", rest);
  argument.initialised = form == "zero";
  return {};
}

Status parse_file(std::string_view path, const FileSystem& files, KernelArgument& argument) {
  STITCH_ASSIGN(const std::string bytes, files.read(std::filesystem::path(path)));
  const Result<NpyArray> array = parse_npy(bytes);
  if (!array) return array.error().within(path);
  const Result<DType> dtype = dtype_of_npy(array->type);
  if (!dtype) return dtype.error().within(path);
  argument.kind = KernelArgument::Kind::buffer;
  argument.dtype = *dtype;
  argument.shape = array->shape;
  argument.buffer_bytes = array->data.size();
  set_contents(argument, array->data);
  return {};
}

Status parse_value(DType dtype, std::string_view text, KernelArgument& argument) {
  argument.dtype = dtype;
  argument.bytes.resize(graph::byte_size(dtype));
  if (graph::is_floating(dtype)) {
    const auto value = number<double>(text);
    if (!value) return make_error(ErrorKind::invalid_argument, "'{}' is no number", text);
    graph::store_element(dtype, *value, argument.bytes.data());
    return {};
  }
  auto value = number<std::int64_t>(text);
  if (!value && dtype == DType::u64) {
    if (const auto large = number<std::uint64_t>(text)) value = static_cast<std::int64_t>(*large);
  }
  if (!value) return make_error(ErrorKind::invalid_argument, "'{}' is no whole number", text);
  graph::store_integer(dtype, *value, argument.bytes.data());
  if (dtype != DType::u64 && graph::load_integer(dtype, argument.bytes.data()) != *value) {
    return make_error(ErrorKind::invalid_argument, "{} does not fit into {}", text, graph::to_string(dtype));
  }
  return {};
}

/// Adds what fills the value from byte `at` on.
Status add_patch(std::string_view form, std::uint64_t at, KernelArgument& argument) {
  ArgumentPatch patch;
  if (form.starts_with('&')) {
    STITCH_TRY(parse_buffer_address(form.substr(1), patch));
  } else {
    STITCH_ASSIGN(patch, parse_tensor_map(form.substr(form.find(':') + 1)));
  }
  patch.at = at;
  if (at > argument.bytes.size() || argument.bytes.size() - at < patch.bytes()) {
    return make_error(ErrorKind::invalid_argument, "{} bytes from byte {} on lie beyond the structure's {}",
                      patch.bytes(), at, argument.bytes.size());
  }
  argument.patches.push_back(std::move(patch));
  return {};
}

/// A value that is nothing but an address or a tensor map.
Status parse_patch(std::string_view form, KernelArgument& argument) {
  argument.bytes.resize(form.starts_with('&') ? 8 : emulator::TensorMap::bytes);
  argument.dtype = DType::u64;
  return add_patch(form, 0, argument);
}

Status parse_bytes(std::string_view text, KernelArgument& argument) {
  const std::string_view digits = take_until(text, ';');
  if (digits.empty() || digits.size() % 2 != 0) {
    return make_error(ErrorKind::invalid_argument, "bytes= takes pairs of hexadecimal digits");
  }
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    const auto value = number<std::uint8_t>(digits.substr(i, 2), 16);
    if (!value) return make_error(ErrorKind::invalid_argument, "'{}' are no hexadecimal digits", digits.substr(i, 2));
    argument.bytes.push_back(static_cast<std::byte>(*value));
  }
  while (!text.empty()) {
    std::string_view form = take_until(text, ';');
    const std::string_view place = take_until(form, '=');
    const auto at = place.starts_with('@') ? number<std::uint64_t>(place.substr(1)) : std::nullopt;
    if (!at || !(form.starts_with('&') || form.starts_with("map:"))) {
      return make_error(ErrorKind::invalid_argument, "'{}={}': after the digits come ;@BYTE=&NAME or ;@BYTE=map:…",
                        place, form);
    }
    STITCH_TRY(add_patch(form, *at, argument));
  }
  return {};
}

Status parse_form(std::string_view text, const FileSystem& files, KernelArgument& argument) {
  if (text == "null") {
    argument.bytes.resize(8);
    argument.dtype = DType::u64;
    return {};
  }
  if (text.starts_with('&') || text.starts_with("map:")) return parse_patch(text, argument);
  std::string_view rest = text;
  const std::string_view form = take_until(rest, ':');
  if (form == "out" || form == "zero" || form == "random" || form == "data") return parse_array(form, rest, argument);
  rest = text;
  const std::string_view type = take_until(rest, '=');
  if (type == "bytes") return parse_bytes(rest, argument);
  if (const auto dtype = type_named(type)) return parse_value(*dtype, rest, argument);
  if (text.ends_with(".npy")) return parse_file(text, files, argument);
  return make_error(ErrorKind::invalid_argument,
                    "expected FILE.npy, out:TYPE[SIZES], zero:TYPE[SIZES], random:TYPE[SIZES]:seed=N, "
                    "data:TYPE[SIZES]:BASE64, TYPE=VALUE, bytes=HEX, &NAME+BYTES, map:TYPE[SIZES]:at=NAME:box=SIZES "
                    "or null");
}

/// NAME= in front of a form; "i32=" and "bytes=" are forms themselves.
std::string_view take_name(std::string_view& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) return {};
  const std::string_view name = text.substr(0, equals);
  const auto of_name = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  if (name.empty() || !std::ranges::all_of(name, of_name) || name == "bytes" || type_named(name)) return {};
  text.remove_prefix(equals + 1);
  return name;
}

}  // namespace

Result<KernelArgument> parse_argument(std::string_view text, std::size_t position, const FileSystem& files) {
  KernelArgument argument;
  argument.text = text.size() <= 120 ? std::string(text) : fmt::format("{}…", text.substr(0, 120));
  argument.name = take_name(text);
  if (argument.name.empty() && text.ends_with(".npy")) argument.name = std::filesystem::path(text).stem().string();
  if (argument.name.empty()) argument.name = std::to_string(position);
  if (Status parsed = parse_form(text, files, argument); !parsed) {
    return parsed.error().within(fmt::format("argument {} ({})", position, argument.text));
  }
  return argument;
}

std::vector<std::byte> random_contents(DType dtype, std::int64_t count, std::uint64_t seed, double low, double high) {
  const int size = graph::byte_size(dtype);
  std::vector<std::byte> bytes(count * size);
  const auto range = static_cast<std::uint64_t>(std::max(high - low, 1.0));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t bits = mix(seed, i);
    std::byte* to = bytes.data() + i * size;
    if (dtype == DType::pred) {
      graph::store_integer(dtype, bits >> 40 & 1, to);
    } else if (graph::is_floating(dtype)) {
      const double unit = static_cast<double>(bits >> 40) / (1 << 24);
      const double value = low + (high - low) * unit;
      graph::store_element(dtype, dtype == DType::f64 ? value : static_cast<float>(value), to);
    } else {
      graph::store_integer(dtype, static_cast<std::int64_t>(low) + static_cast<std::int64_t>(bits % range), to);
    }
  }
  return bytes;
}

namespace {

struct NpyType {
  std::string_view npy;
  DType dtype;
};
constexpr NpyType npy_types[] = {{"b1", DType::pred}, {"i1", DType::s8},    {"u1", DType::u8},  {"i2", DType::s16},
                                 {"u2", DType::u16},  {"i4", DType::s32},   {"u4", DType::u32}, {"i8", DType::s64},
                                 {"u8", DType::u64},  {"f2", DType::f16},   {"f4", DType::f32}, {"f8", DType::f64},
                                 {"V2", DType::bf16}, {"V1", DType::f8e4m3}};

}  // namespace

Result<DType> dtype_of_npy(std::string_view type) {
  const auto* row = std::ranges::find(npy_types, type, &NpyType::npy);
  if (row == std::end(npy_types)) {
    return make_error(ErrorKind::unsupported, "elements of NumPy's type '{}' are not known here", type);
  }
  return row->dtype;
}

std::string npy_type_of(DType dtype) {
  const auto* row = std::ranges::find(npy_types, dtype, &NpyType::dtype);
  return row == std::end(npy_types) ? fmt::format("V{}", graph::byte_size(dtype)) : std::string(row->npy);
}

}  // namespace stitch::cli
