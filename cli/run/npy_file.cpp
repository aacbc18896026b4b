#include "cli/run/npy_file.h"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace stitch::cli {
namespace {

using graph::DType;

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::size_t header_alignment = 64;

std::string descriptor(DType dtype) {
  const std::string bytes = std::to_string(graph::byte_size(dtype));
  if (dtype == DType::pred) return "|b1";
  if (dtype == DType::f8e4m3 || dtype == DType::f8e5m2) return "|u1";
  if (dtype == DType::bf16) return "<u2";
  const std::string order = graph::byte_size(dtype) == 1 ? "|" : "<";
  if (graph::is_floating(dtype)) return order + "f" + bytes;
  return order + (graph::is_signed_integer(dtype) ? "i" : "u") + bytes;
}

bool names(std::string_view found, DType dtype) {
  if (found == descriptor(dtype)) return true;
  const bool foreign = dtype == DType::bf16 || dtype == DType::f8e4m3 || dtype == DType::f8e5m2;
  return foreign && found.size() == 3 && found.substr(1) == "V" + std::to_string(graph::byte_size(dtype));
}

/// What stands behind "'key':" in the header's dictionary, without blanks in front.
Result<std::string_view> entry(std::string_view header, std::string_view key) {
  const std::string quoted = "'" + std::string(key) + "':";
  const std::size_t at = header.find(quoted);
  if (at == std::string_view::npos) return make_error(ErrorKind::parse, "its header has no {}", key);
  std::string_view rest = header.substr(at + quoted.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  return rest;
}

Result<graph::Dims> shape(std::string_view text) {
  if (!text.starts_with("(")) return make_error(ErrorKind::parse, "its shape is no tuple");
  graph::Dims dims;
  text.remove_prefix(1);
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(" ,"), text.size()));
    if (text.starts_with(")")) return dims;
    std::int64_t extent = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), extent);
    if (error != std::errc() || extent < 0) return make_error(ErrorKind::parse, "its shape is no tuple of extents");
    dims.push_back(extent);
    text.remove_prefix(end - text.data());
  }
}

}  // namespace

Result<std::vector<std::byte>> read_npy(std::string_view file, const graph::TensorType& wanted) {
  if (!file.starts_with(magic) || file.size() < 12) return make_error(ErrorKind::parse, "no NumPy file (.npy)");
  const auto byte = [&](std::size_t at) { return std::size_t{static_cast<unsigned char>(file[at])}; };
  const bool wide = byte(6) >= 2;
  std::size_t length = byte(8) | byte(9) << 8;
  if (wide) length |= byte(10) << 16 | byte(11) << 24;
  const std::size_t start = wide ? 12 : 10;
  if (byte(6) > 3 || length > file.size() - start) return make_error(ErrorKind::parse, "its header is damaged");
  const std::string_view header = file.substr(start, length);
  STITCH_ASSIGN(std::string_view found, entry(header, "descr"));
  found.remove_prefix(found.starts_with("'") ? 1 : 0);
  found = found.substr(0, found.find('\''));
  STITCH_ASSIGN(const std::string_view order, entry(header, "fortran_order"));
  if (!order.starts_with("False")) return make_error(ErrorKind::parse, "it is in Fortran order");
  STITCH_ASSIGN(const std::string_view tuple, entry(header, "shape"));
  STITCH_ASSIGN(const graph::Dims dims, shape(tuple));
  if (!names(found, wanted.dtype) || dims != wanted.dims) {
    return make_error(ErrorKind::invalid_argument, "it holds '{}' of shape {}, the model takes {} ('{}')", found,
                      graph::to_string(dims), graph::to_string(wanted), descriptor(wanted.dtype));
  }
  const std::string_view data = file.substr(start + length);
  if (std::ssize(data) != wanted.bytes())
    return make_error(ErrorKind::parse, "{} bytes of data, {} need {}", data.size(), to_string(wanted), wanted.bytes());
  std::vector<std::byte> elements(data.size());
  if (!data.empty()) std::memcpy(elements.data(), data.data(), data.size());
  return elements;
}

std::string write_npy(const graph::TensorType& type, const std::byte* elements) {
  std::string tuple;
  for (const std::int64_t extent : type.dims) tuple += std::to_string(extent) + ", ";
  if (type.dims.size() > 1) tuple.resize(tuple.size() - 2);
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descriptor(type.dtype),
                                   type.dims.size() == 1 ? tuple.substr(0, tuple.size() - 1) : tuple);
  const std::size_t used = magic.size() + 4 + header.size() + 1;
  header.append((header_alignment - used % header_alignment) % header_alignment, ' ');
  header += '\n';
  std::string file(magic);
  file += {'\1', '\0', static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  file += header;
  const std::size_t data = file.size();
  file.resize(data + type.bytes());
  if (type.bytes() > 0) std::memcpy(file.data() + data, elements, type.bytes());
  return file;
}

}  // namespace stitch::cli
