#include "import/import.h"

#include <array>
#include <optional>

#include "base/gzip.h"
#include "import/donations.h"

namespace stitch::import {
namespace {

enum class Format : std::uint8_t { hlo, fragment, onnx };

/// The first bytes of an ONNX file: a field of ModelProto with its wire type.
constexpr std::string_view onnx_tags = "\x08\x12\x1a\x22\x28\x32\x3a\x42\x72\xa2";

std::string_view without_space(std::string_view bytes) {
  const std::size_t first = bytes.find_first_not_of(" \t\r\n");
  return first == std::string_view::npos ? std::string_view() : bytes.substr(first);
}

/// What the contents cannot be mistaken for.
std::optional<Format> format_of_contents(std::string_view bytes) {
  const std::string_view text = without_space(bytes);
  if (text.starts_with("HloModule") || text.starts_with("/*") || text.starts_with("//")) return Format::hlo;
  if (text.starts_with('{')) return Format::fragment;
  return std::nullopt;
}

std::optional<Format> format_of_name(std::string_view name) {
  struct Row {
    std::string_view ending;
    Format format;
  };
  constexpr std::array<Row, 6> rows = {{{".onnx", Format::onnx},
                                        {".cbor", Format::fragment},
                                        {".json", Format::fragment},
                                        {".hlo", Format::hlo},
                                        {".txt", Format::hlo},
                                        {".pb", Format::onnx}}};
  for (const Row& row : rows) {
    if (name.ends_with(row.ending)) return row.format;
  }
  return std::nullopt;
}

/// The least certain sign: a CBOR map, or a protobuf field that ONNX has.
std::optional<Format> format_of_first_byte(std::string_view bytes) {
  const auto first = static_cast<unsigned char>(bytes.front());
  if (onnx_tags.find(bytes.front()) != std::string_view::npos && first < 0x80) return Format::onnx;
  if (first >= 0xa0 && first <= 0xbf) return Format::fragment;
  return std::nullopt;
}

Result<Imported> import_as(Format format, std::string_view bytes, const ImportOptions& options) {
  switch (format) {
    case Format::hlo: return import_hlo_text(bytes, options);
    case Format::fragment: return import_fragment(bytes, options);
    case Format::onnx: return import_onnx(bytes, options);
  }
  return make_error(ErrorKind::internal, "no such format");
}

/// Of a document of ours that is no model, what it is instead of the first field that a fragment has not.
Error explained(Error error, Format format, std::string_view bytes) {
  if (format != Format::fragment) return error;
  for (const std::string_view kind : {"package", "program"}) {
    if (bytes.find(fmt::format("stitch-{}", kind)) != std::string_view::npos)
      return make_error(ErrorKind::invalid_argument, "a {} of Stitch's, and no model", kind);
  }
  return error;
}

}  // namespace

Result<Imported> import_bytes(std::string_view bytes, std::string_view name, const ImportOptions& options) {
  std::string unpacked;
  if (is_gzip(bytes)) {
    STITCH_ASSIGN(unpacked, gunzip(bytes, options.max_bytes));
    bytes = unpacked;
    if (name.ends_with(".gz")) name.remove_suffix(3);
  }
  if (std::ssize(bytes) > options.max_bytes) {
    return make_error(ErrorKind::resource_exhausted, "the model has {} bytes, the limit is {}", bytes.size(),
                      options.max_bytes);
  }
  if (without_space(bytes).empty()) return make_error(ErrorKind::parse, "line 1, column 1: the file is empty");
  for (const std::optional<Format> format :
       {format_of_contents(bytes), format_of_name(name), format_of_first_byte(bytes)}) {
    if (!format) continue;
    Result<Imported> imported = import_as(*format, bytes, options);
    if (!imported) return explained(imported.error(), *format, bytes);
    imported->graph.constraints = imported->graph.constraints | options.constraints;
    for (const std::string& donation : options.donations) STITCH_TRY(donate(*imported, donation));
    return imported;
  }
  return make_error(ErrorKind::unsupported, "neither HLO text nor ONNX nor a fragment (JSON or CBOR)");
}

Result<Imported> import_file(const FileSystem& files, const std::filesystem::path& path, const ImportOptions& options) {
  STITCH_ASSIGN(const std::string bytes, files.read(path));  // its errors name the path
  Result<Imported> imported = import_bytes(bytes, path.filename().string(), options);
  if (!imported) return imported.error().within(path.string());
  return imported;
}

Result<Imported> import_file(const std::filesystem::path& path, const ImportOptions& options) {
  return import_file(RealFileSystem(), path, options);
}

}  // namespace stitch::import
