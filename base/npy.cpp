#include "base/npy.h"

#include <fmt/ranges.h>

#include <charconv>
#include <limits>
#include <optional>

namespace stitch {
namespace {

constexpr std::string_view npy_magic = "\x93NUMPY";

Error bad_npy(std::string_view what) { return make_error(ErrorKind::parse, "not a .npy file: {}", what); }

/// What follows `'key':` in the header, which is a Python dictionary that NumPy printed.
std::optional<std::string_view> field_of(std::string_view header, std::string_view key) {
  const std::size_t at = header.find(fmt::format("'{}':", key));
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = header.substr(at + key.size() + 3);
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  return rest;
}

/// "(3, 4)", "(3,)" or "()".
Result<std::vector<std::int64_t>> parse_shape(std::string_view text) {
  if (!text.starts_with('(') || text.find(')') == std::string_view::npos) return bad_npy("its shape is no tuple");
  text = text.substr(1, text.find(')') - 1);
  std::vector<std::int64_t> shape;
  while (!text.empty()) {
    text.remove_prefix(std::min(text.find_first_not_of(" ,"), text.size()));
    if (text.empty()) break;
    std::int64_t size = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (status != std::errc{} || size < 0) return bad_npy("its shape holds something that is no size");
    shape.push_back(size);
    text.remove_prefix(end - text.data());
  }
  return shape;
}

/// Bytes of an element: the number in "f4".
Result<std::int64_t> element_bytes(std::string_view type) {
  std::int64_t bytes = 0;
  const auto [end, status] = std::from_chars(type.data() + 1, type.data() + type.size(), bytes);
  if (status != std::errc{} || end != type.data() + type.size() || bytes <= 0 || bytes > 16) {
    return make_error(ErrorKind::unsupported, "a .npy file of elements '{}'", type);
  }
  return bytes;
}

/// 'type' without its byte order.
Result<std::string> parse_type(std::string_view text) {
  if (!text.starts_with('\'') || text.find('\'', 1) == std::string_view::npos) {
    return make_error(ErrorKind::unsupported, "a .npy file of structures");
  }
  const std::string_view descr = text.substr(1, text.find('\'', 1) - 1);
  if (descr.size() < 3 || std::string_view("biufcV").find(descr[1]) == std::string_view::npos) {
    return make_error(ErrorKind::unsupported, "a .npy file of elements '{}'", descr);
  }
  if (descr[0] == '>') return make_error(ErrorKind::unsupported, "a .npy file of big-endian elements '{}'", descr);
  return std::string(descr.substr(1));
}

/// The header's text, and where the data begins.
Result<std::pair<std::string_view, std::size_t>> find_header(std::string_view bytes) {
  if (!bytes.starts_with(npy_magic)) return bad_npy("it does not begin like one");
  if (bytes.size() < 12) return bad_npy("it is cut off in its header");
  const int version = static_cast<unsigned char>(bytes[6]);
  if (version < 1 || version > 3) {
    return make_error(ErrorKind::unsupported, "a .npy file of version {}, this reads 1 to 3", version);
  }
  const std::size_t width = version == 1 ? 2 : 4;
  std::size_t length = 0;
  for (std::size_t i = 0; i < width; ++i) {
    length |= std::size_t{static_cast<unsigned char>(bytes[8 + i])} << (8 * i);
  }
  const std::size_t begin = 8 + width;
  if (length > bytes.size() - begin) return bad_npy("it is cut off in its header");
  return std::pair(bytes.substr(begin, length), begin + length);
}

}  // namespace

std::int64_t NpyArray::count() const {
  std::int64_t product = 1;
  for (const std::int64_t size : shape) product *= size;
  return product;
}

Result<NpyArray> parse_npy(std::string_view bytes) {
  STITCH_ASSIGN(const auto found, find_header(bytes));
  const auto& [header, begin] = found;
  const auto descr = field_of(header, "descr");
  const auto order = field_of(header, "fortran_order");
  const auto shape = field_of(header, "shape");
  if (!descr || !order || !shape) return bad_npy("its header lacks descr, fortran_order or shape");
  NpyArray array;
  STITCH_ASSIGN(array.type, parse_type(*descr));
  STITCH_ASSIGN(array.shape, parse_shape(*shape));
  if (order->starts_with("True") && array.shape.size() > 1) {
    return make_error(ErrorKind::unsupported, "a .npy file in column-major order; numpy.ascontiguousarray turns it");
  }
  STITCH_ASSIGN(std::int64_t wanted, element_bytes(array.type));
  for (const std::int64_t size : array.shape) {
    if (size != 0 && wanted > std::numeric_limits<std::int64_t>::max() / size) return bad_npy("its shape is too large");
    wanted *= size;
  }
  const std::string_view data = bytes.substr(begin);
  if (data.size() < static_cast<std::size_t>(wanted)) {
    return bad_npy(fmt::format("it holds {} bytes of data, its shape ({}) of '{}' needs {}", data.size(),
                               fmt::join(array.shape, ", "), array.type, wanted));
  }
  array.data = std::string(data.substr(0, wanted));
  return array;
}

std::string encode_npy(const NpyArray& array) {
  const bool bytes_only = array.type.ends_with('1') || array.type.starts_with('V');
  std::string header =
      fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}{}), }}", bytes_only ? '|' : '<', array.type,
                  fmt::join(array.shape, ", "), array.shape.size() == 1 ? "," : "");
  // Data begin at a multiple of 64; the header ends in a new line.
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string file(npy_magic);
  file += '\x01';
  file += '\x00';
  file += static_cast<char>(header.size() & 0xFF);
  file += static_cast<char>(header.size() >> 8);
  return file + header + array.data;
}

}  // namespace stitch
