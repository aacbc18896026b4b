#include "lab/breadth/breadth_log.h"

#include <nlohmann/json.hpp>

#include "base/file.h"

namespace stitch::lab {

Result<std::unique_ptr<BreadthLog>> BreadthLog::open(const std::filesystem::path& path, std::uint64_t seed,
                                                     std::string_view of) {
  auto log = std::make_unique<BreadthLog>();
  if (path.empty()) return log;
  const bool continues = std::filesystem::exists(path);
  if (continues) STITCH_TRY(log->read(path, seed, of));
  log->file_.open(path, std::ios::app);
  if (!continues) log->file_ << nlohmann::json{{"seed", seed}, {"of", of}}.dump() << std::endl;
  if (!log->file_) return make_error(ErrorKind::io, "{} cannot be written", path.string());
  return log;
}

Status BreadthLog::read(const std::filesystem::path& path, std::uint64_t seed, std::string_view of) {
  STITCH_ASSIGN(const std::string text, RealFileSystem().read(path));
  std::size_t whole = 0, number = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', whole)) {
    const std::string_view line = std::string_view(text).substr(whole, end - whole);
    const nlohmann::json entry = nlohmann::json::parse(line, nullptr, false);
    ++number;
    whole = end + 1;
    const bool first = number == 1;
    if (!entry.is_object() || !entry.contains(first ? "seed" : "from"))
      return make_error(ErrorKind::parse, "{}: line {} is none of a breadth log", path.string(), number);
    if (first && entry["seed"] != seed)
      return make_error(ErrorKind::invalid_argument, "{} is the log of seed {}, not of {}", path.string(),
                        entry["seed"].dump(), seed);
    if (first && entry.value("of", "graphs") != of)
      return make_error(ErrorKind::invalid_argument, "{} is a log of {}, not of {}", path.string(),
                        entry.value("of", "graphs"), of);
    if (first) continue;
    const Result<BreadthReport> piece = report_from_document(entry);
    if (!piece) return piece.error().within(fmt::format("{}: line {}", path.string(), number));
    if (done_.insert(entry["from"].get<std::int64_t>()).second) total_.add(*piece);
  }
  // What was cut off would stand before the next line.
  std::error_code failed;
  std::filesystem::resize_file(path, whole, failed);
  if (failed) return make_error(ErrorKind::io, "{}: {}", path.string(), failed.message());
  return {};
}

Status BreadthLog::add(std::int64_t from, const BreadthReport& piece) {
  const std::lock_guard lock(mutex_);
  total_.add(piece);
  done_.insert(from);
  if (!file_.is_open()) return {};
  nlohmann::ordered_json line = {{"from", from}};
  line.update(to_document(piece));
  file_ << line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
  if (!file_) return make_error(ErrorKind::io, "the log cannot be written");
  return {};
}

}  // namespace stitch::lab
