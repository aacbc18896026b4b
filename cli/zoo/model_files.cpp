#include "cli/zoo/model_files.h"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

namespace stitch::cli {
namespace {

namespace fs = std::filesystem;

bool is_model_name(std::string name) {
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  return std::ranges::any_of(std::initializer_list<const char*>{".onnx", ".hlo", ".hlo.txt"},
                             [&](const char* ending) { return name.ends_with(ending); });
}

Status add_folder(const fs::path& folder, std::vector<tuning::ZooModel>& found) {
  std::vector<tuning::ZooModel> inside;
  std::error_code failed;
  for (fs::recursive_directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed)) {
    const fs::path& path = entry->path();
    std::error_code unknown;
    if (!is_model_name(path.filename().string()) || !entry->is_regular_file(unknown)) continue;
    inside.push_back({path.lexically_relative(folder).string(), path});
  }
  if (failed) return make_error(ErrorKind::io, "{}: {}", folder.string(), failed.message());
  if (inside.empty()) {
    return make_error(ErrorKind::not_found, "{}: no model below it; their names end in .onnx, .hlo or .hlo.txt, or .gz",
                      folder.string());
  }
  std::ranges::sort(inside, {}, &tuning::ZooModel::name);
  found.insert(found.end(), inside.begin(), inside.end());
  return {};
}

Status add_named(const fs::path& name, std::vector<tuning::ZooModel>& found) {
  std::error_code unknown;
  if (fs::is_directory(name, unknown)) return add_folder(name, found);
  if (!fs::exists(name, unknown)) {
    return make_error(ErrorKind::not_found, "{}: no such file or folder", name.string());
  }
  found.push_back({name.filename().string(), name});
  return {};
}

Status add_list(const fs::path& list, const FileSystem& files, std::vector<tuning::ZooModel>& found) {
  STITCH_ASSIGN(const std::string text, files.read(list));
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty() || line.starts_with('#')) continue;
    const Status added = add_named(list.parent_path() / line, found);
    if (!added) return added.error().within(fmt::format("{}: line {}", list.string(), number));
  }
  return {};
}

}  // namespace

Result<std::vector<tuning::ZooModel>> find_models(const std::vector<std::string>& names, const FileSystem& files) {
  std::vector<tuning::ZooModel> found;
  for (const std::string& name : names) {
    if (name.starts_with('@')) {
      STITCH_TRY(add_list(name.substr(1), files, found));
    } else {
      STITCH_TRY(add_named(name, found));
    }
  }
  std::set<fs::path> known;
  std::erase_if(found, [&](const tuning::ZooModel& model) {
    std::error_code unknown;
    const fs::path place = fs::weakly_canonical(model.path, unknown);
    return !known.insert(unknown ? model.path : place).second;
  });
  std::map<std::string, int> times;
  for (const tuning::ZooModel& model : found) ++times[model.name];
  for (tuning::ZooModel& model : found) {
    if (times[model.name] > 1) model.name = model.path.string();
  }
  return found;
}

}  // namespace stitch::cli
