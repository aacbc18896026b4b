#include "api/program_lock.h"

#include <algorithm>
#include <vector>

namespace stitch::api {
namespace {

constexpr std::string_view first_line = "stitch-lock 1";

/// A name on one line.
std::string on_one_line(std::string name) {
  std::ranges::replace_if(
      name, [](unsigned char c) { return c < ' '; }, ' ');
  return name;
}

std::string line_of(const ProgramFragment& fragment) {
  if (!fragment.plan) return fmt::format("fragment {}  no plan", fragment.key.hex());
  std::string line = fmt::format("fragment {}  plan {}  code", fragment.key.hex(), fragment.plan->id.hex());
  for (const Sha256& hash : code_of(*fragment.plan)) line += " " + hash.hex();
  return line;
}

std::vector<std::string> lines_of(const Program& program) {
  const PlanTarget& target = program.target;
  std::vector<std::string> lines = {
      std::string(first_line), fmt::format("program {}  {}", program.id.hex(), on_one_line(program.model)),
      fmt::format("target {} {} {} {}", target.device, target.architecture, target.toolkit, target.version)};
  for (const ProgramFragment& fragment : program.fragments) lines.push_back(line_of(fragment));
  return lines;
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (end > 0) lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace

std::string lock_of(const Program& program) {
  std::string text;
  for (const std::string& line : lines_of(program)) text += line + "\n";
  return text;
}

Status check_lock(std::string_view lock, const Program& program) {
  const std::vector<std::string_view> locked = split(lock);
  if (locked.empty() || !locked[0].starts_with("stitch-lock "))
    return make_error(ErrorKind::parse, "line 1: no lock of Stitch's");
  if (locked[0] != first_line)
    return make_error(ErrorKind::version_mismatch, "line 1: '{}', '{}' is read here", locked[0], first_line);
  const std::vector<std::string> found = lines_of(program);
  for (std::size_t i = 1; i < std::max(locked.size(), found.size()); ++i) {
    const std::string_view wanted = i < locked.size() ? locked[i] : "nothing more";
    const std::string_view here = i < found.size() ? std::string_view(found[i]) : "nothing more";
    if (wanted != here)
      return make_error(ErrorKind::constraint, "line {} of the lock: '{}', the program has '{}'", i + 1, wanted, here);
  }
  return {};
}

}  // namespace stitch::api
