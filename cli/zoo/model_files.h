#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "tuning/zoo/zoo.h"

namespace stitch::cli {

/// The model files that a user named, in that order. A name is a model file, a folder (every file below it that ends in
/// .onnx, .hlo or .hlo.txt, or one of them and .gz, by name), or @FILE: a list of such names, one a line,
/// relative to the list's folder; empty lines and those that begin with # are passed over. A file that is named twice
/// is one model. Errors: not_found (a name that is neither; a folder without models), io (a list that cannot be read).
Result<std::vector<tuning::ZooModel>> find_models(const std::vector<std::string>& names, const FileSystem& files);

}  // namespace stitch::cli
