#pragma once

#include <filesystem>
#include <string_view>

#include "base/file.h"
#include "lab/spaces/recorded_space.h"

namespace stitch::lab {

/// Reads a Kernel Tuner cache file or T4 results; the contents tell which. Errors: parse, naming the byte of malformed
/// or cut-off JSON, or the entry and field that is missing or of a wrong type; invalid_argument for what is neither.
Result<RecordedSpace> parse_recorded_space(std::string_view text);

/// The same from a file's bytes, gzipped or not. Errors also: corrupt (a damaged gzip stream), resource_exhausted (more
/// than 1 GiB of text).
Result<RecordedSpace> decode_recorded_space(std::string_view bytes);

/// The same from a file; every message begins with its name. Errors also: not_found, io.
Result<RecordedSpace> read_recorded_space(const FileSystem& files, const std::filesystem::path& path);

}  // namespace stitch::lab
