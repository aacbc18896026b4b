#include "lab/spaces/space_file.h"

#include <nlohmann/json.hpp>

#include "base/gzip.h"
#include "lab/spaces/kernel_tuner_file.h"
#include "lab/spaces/t4_file.h"

namespace stitch::lab {
namespace {

using nlohmann::json;

constexpr std::int64_t most_bytes = std::int64_t{1} << 30;

/// Kernel Tuner appends entries while it runs and closes the file at the end: one that was interrupted ends behind an
/// entry's comma, and is whole up to there.
std::string closed(std::string_view text) {
  const std::size_t last = text.find_last_not_of(" \t\r\n");
  if (last == std::string_view::npos || text[last] != ',' ||
      text.find("\"tune_params_keys\"") == std::string_view::npos) {
    return std::string(text);
  }
  return std::string(text.substr(0, last)) + "}}";
}

}  // namespace

Result<RecordedSpace> parse_recorded_space(std::string_view text) {
  json document;
  try {
    document = json::parse(closed(text));
  } catch (const json::parse_error& error) {
    return make_error(ErrorKind::parse, "JSON is malformed or cut off at byte {} of {}", error.byte, text.size());
  } catch (const json::out_of_range& error) {
    return make_error(ErrorKind::parse, "JSON holds a number that is none here: {}", error.what());
  }
  if (is_kernel_tuner_file(document)) return read_kernel_tuner_file(document);
  if (is_t4_file(document)) return read_t4_file(document);
  return make_error(
      ErrorKind::invalid_argument,
      "neither a Kernel Tuner cache file (tune_params, tune_params_keys, cache) nor T4 results (results)");
}

Result<RecordedSpace> decode_recorded_space(std::string_view bytes) {
  if (!is_gzip(bytes)) return parse_recorded_space(bytes);
  STITCH_ASSIGN(const std::string text, gunzip(bytes, most_bytes));
  return parse_recorded_space(text);
}

Result<RecordedSpace> read_recorded_space(const FileSystem& files, const std::filesystem::path& path) {
  STITCH_ASSIGN(const std::string bytes, files.read(path));
  Result<RecordedSpace> recorded = decode_recorded_space(bytes);
  if (!recorded) return recorded.error().within(path.string());
  return recorded;
}

}  // namespace stitch::lab
