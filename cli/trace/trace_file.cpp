#include "cli/trace/trace_file.h"

#include <algorithm>
#include <limits>

namespace stitch::cli {
namespace {

constexpr std::string_view trace_format = "stitch-trace";
constexpr std::int64_t known_trace_version = 1;

std::int64_t member_integer(const nlohmann::json& line, std::string_view field) {
  const auto at = line.find(field);
  return at != line.end() && at->is_number_integer() ? at->get<std::int64_t>() : 0;
}

std::string member_text(const nlohmann::json& line, std::string_view field) {
  const auto at = line.find(field);
  if (at == line.end() || at->is_null()) return {};
  return at->is_string() ? at->get<std::string>() : at->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool is_event(const nlohmann::json& line) {
  return line.is_object() && line.contains("event") && line["event"].is_string() && line.contains("ts") &&
         line["ts"].is_number_integer();
}

Status check_beginning(const nlohmann::json& line, const std::string& file) {
  if (!is_event(line) || member_text(line, "format") != trace_format)
    return make_error(ErrorKind::parse, "{}, line 1: no trace of Stitch's", file);
  if (const std::int64_t version = member_integer(line, "version"); version != known_trace_version) {
    return make_error(ErrorKind::version_mismatch, "{}, line 1: version {} of the format, {} is read here", file,
                      version, known_trace_version);
  }
  return {};
}

bool is_named_as_trace(const std::filesystem::path& path) {
  return path.filename().string().starts_with("stitch-") && path.extension() == ".jsonl";
}

}  // namespace

std::string TraceEvent::text(std::string_view field) const { return member_text(fields, field); }

double TraceEvent::number(std::string_view field) const {
  const auto at = fields.find(field);
  return at != fields.end() && at->is_number() ? at->get<double>() : 0;
}

bool TraceEvent::is_true(std::string_view field) const {
  const auto at = fields.find(field);
  return at != fields.end() && at->is_boolean() && at->get<bool>();
}

std::string ProcessTrace::title() const {
  return fmt::format("{}{} ({}{})", rank ? fmt::format("rank {}, ", *rank) : "", program, process,
                     host.empty() ? "" : " on " + host);
}

Result<std::optional<ProcessTrace>> parse_trace(std::string_view text, const std::string& file) {
  ProcessTrace trace;
  trace.file = file;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    const bool last = end == std::string_view::npos || end + 1 == text.size();
    const nlohmann::json line = nlohmann::json::parse(text.substr(0, end), nullptr, false);
    text.remove_prefix(last ? text.size() : end + 1);
    // The one before a process was killed, or a disk was full. Of a file's only line it cannot be told whose it is.
    if (last && number > 1 && (end == std::string_view::npos || !is_event(line))) {
      trace.cut = true;
      break;
    }
    if (number == 1) {
      if (last && end == std::string_view::npos && line.is_discarded()) return std::optional<ProcessTrace>();
      STITCH_TRY(check_beginning(line, file));
      trace.process = member_integer(line, "pid");
      trace.parent = member_integer(line, "parent");
      if (line.contains("rank")) trace.rank = member_integer(line, "rank");
      trace.host = member_text(line, "host");
      trace.program = member_text(line, "program");
      trace.version = member_text(line, "stitch");
      trace.began_us = trace.ended_us = member_integer(line, "ts");
      continue;
    }
    if (!is_event(line)) return make_error(ErrorKind::parse, "{}, line {}: no event", file, number);
    TraceEvent event{member_text(line, "event"), member_integer(line, "ts"), {}, member_integer(line, "tid"), line};
    if (line.contains("dur")) event.took_us = std::max<std::int64_t>(0, member_integer(line, "dur"));
    trace.ended_us = std::max(trace.ended_us, event.end_us());
    trace.began_us = std::min(trace.began_us, event.at_us);  // what it was doing when it first had something to tell
    if (event.name == "end") {
      trace.ended = true;
    } else {
      trace.events.push_back(std::move(event));
    }
  }
  if (trace.version.empty()) return std::optional<ProcessTrace>();  // an empty file
  return std::optional<ProcessTrace>(std::move(trace));
}

Result<std::vector<ProcessTrace>> read_traces(const FileSystem& files, const std::filesystem::path& from) {
  std::vector<std::filesystem::path> paths;
  if (std::error_code none; std::filesystem::is_directory(from, none)) {
    for (const FileSystem::Entry& entry : files.list(from)) {
      if (is_named_as_trace(entry.path)) paths.push_back(entry.path);
    }
  } else {
    paths.push_back(from);
  }
  std::vector<ProcessTrace> traces;
  for (const std::filesystem::path& path : paths) {
    STITCH_ASSIGN(const std::string text, files.read(path));
    STITCH_ASSIGN(auto trace, parse_trace(text, path.string()));
    if (trace) traces.push_back(*std::move(trace));
  }
  if (traces.empty()) {
    return make_error(ErrorKind::not_found, "{}: no trace is there (stitch-….jsonl; STITCH_TRACE={} has them written)",
                      from.string(), from.string());
  }
  std::ranges::stable_sort(traces, [](const ProcessTrace& a, const ProcessTrace& b) {
    constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();
    return std::pair(a.rank.value_or(none), a.began_us) < std::pair(b.rank.value_or(none), b.began_us);
  });
  return traces;
}

std::vector<ProcessTrace> latest_run(std::vector<ProcessTrace> all) {
  if (all.empty()) return all;
  const auto last = std::ranges::max_element(all, {}, &ProcessTrace::began_us);
  std::int64_t from = last->began_us, to = last->ended_us;
  const auto overlaps = [&](const ProcessTrace& one) { return one.began_us <= to && one.ended_us >= from; };
  for (bool grows = true; grows;) {
    grows = false;
    for (const ProcessTrace& one : all) {
      if (!overlaps(one) || (one.began_us >= from && one.ended_us <= to)) continue;
      from = std::min(from, one.began_us);
      to = std::max(to, one.ended_us);
      grows = true;
    }
  }
  std::erase_if(all, [&](const ProcessTrace& one) { return !overlaps(one); });
  return all;
}

}  // namespace stitch::cli
