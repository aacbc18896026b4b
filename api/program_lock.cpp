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
      fmt::format("program {}  {}", program.id.hex(), on_one_line(program.model)),
      fmt::format("target {} {} {} {}", target.device, target.architecture, target.toolkit, target.version)};
  for (const ProgramFragment& fragment : program.fragments) lines.push_back(line_of(fragment));
  return lines;
}

/// A line of a lock, with its number.
struct Line {
  int number = 0;
  std::string_view text;

  [[nodiscard]] Error wants(std::string_view what) const {
    constexpr std::size_t most = 80;
    return make_error(ErrorKind::parse, "line {}: expected '{}', found '{}'", number, what, text.substr(0, most));
  }
};

/// Without empty ones. Errors: parse, version_mismatch.
Result<std::vector<Line>> split(std::string_view text) {
  std::vector<Line> lines;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (end > 0) lines.push_back({number, text.substr(0, end)});
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (lines.empty() || !lines[0].text.starts_with("stitch-lock "))
    return make_error(ErrorKind::parse, "line 1: no lock of Stitch's");
  if (lines[0].text != first_line)
    return make_error(ErrorKind::version_mismatch, "line 1: '{}', '{}' is read here", lines[0].text, first_line);
  return lines;
}

constexpr std::string_view begins_program = "program ";

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (end > 0) words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

Result<LockedProgram> program_in(const Line& line) {
  constexpr std::string_view wanted = "program ID  NAME";
  const std::string_view rest = line.text.substr(begins_program.size());
  const std::size_t end = rest.find("  ");
  const auto id = Hash128::from_hex(rest.substr(0, end));
  if (!id || end == std::string_view::npos) return line.wants(wanted);
  return LockedProgram{line.number, *id, std::string(rest.substr(end + 2)), {}, {}};
}

/// Names of GPUs may have blanks in them, nothing else does.
Result<PlanTarget> target_in(const Line& line) {
  constexpr std::string_view wanted = "target DEVICE ARCHITECTURE TOOLKIT VERSION";
  const std::vector<std::string_view> words = words_of(line.text);
  const std::size_t count = words.size();
  if (count < 5 || words[0] != "target") return line.wants(wanted);
  std::string device(words[1]);
  for (std::size_t i = 2; i + 3 < count; ++i) device += fmt::format(" {}", words[i]);
  return PlanTarget{device, std::string(words[count - 3]), std::string(words[count - 2]),
                    std::string(words[count - 1])};
}

Result<LockedFragment> fragment_in(const Line& line) {
  constexpr std::string_view wanted = "fragment KEY  plan ID  code HASH…";
  const std::vector<std::string_view> words = words_of(line.text);
  if (words.size() < 4 || words[0] != "fragment") return line.wants(wanted);
  const auto key = Hash128::from_hex(words[1]);
  if (!key) return line.wants(wanted);
  LockedFragment fragment{line.number, *key, {}, {}};
  if (words.size() == 4 && words[2] == "no" && words[3] == "plan") return fragment;
  fragment.plan = Hash128::from_hex(words[3]);
  if (words[2] != "plan" || !fragment.plan || words.size() < 5 || words[4] != "code") return line.wants(wanted);
  for (std::size_t i = 5; i < words.size(); ++i) {
    const auto hash = Sha256::from_hex(words[i]);
    if (!hash) return line.wants(wanted);
    fragment.code.push_back(*hash);
  }
  return fragment;
}

}  // namespace

std::string lock_of(std::span<const Program> programs) {
  std::string text = fmt::format("{}\n", first_line);
  for (const Program& program : programs) {
    for (const std::string& line : lines_of(program)) text += line + "\n";
  }
  return text;
}

std::string lock_of(const Program& program) { return lock_of(std::span(&program, 1)); }

Result<std::vector<LockedProgram>> parse_lock(std::string_view lock) {
  STITCH_ASSIGN(const std::vector<Line> lines, split(lock));
  std::vector<LockedProgram> programs;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const Line& line = lines[i];
    if (line.text.starts_with("piece "))
      return make_error(ErrorKind::parse, "line {}: a lock of stitch.torch.write_lock, which stitch.torch checks",
                        line.number);
    if (line.text.starts_with(begins_program)) {
      STITCH_ASSIGN(LockedProgram program, program_in(line));
      programs.push_back(std::move(program));
    } else if (programs.empty()) {
      return line.wants("program ID  NAME");
    } else if (lines[i - 1].text.starts_with(begins_program)) {
      STITCH_ASSIGN(programs.back().target, target_in(line));
    } else {
      STITCH_ASSIGN(LockedFragment fragment, fragment_in(line));
      programs.back().fragments.push_back(std::move(fragment));
    }
  }
  return programs;
}

const LockedProgram* locked_in(std::span<const LockedProgram> lock, const Program& program) {
  const LockedProgram* found = nullptr;
  for (const LockedProgram& locked : lock) {
    if (locked.id != program.id) continue;
    if (locked.target == program.target) return &locked;
    if (found == nullptr) found = &locked;
  }
  return found;
}

const LockedFragment* fragment_in(const LockedProgram& locked, const Hash128& key) {
  const auto found = std::ranges::find(locked.fragments, key, &LockedFragment::key);
  return found == locked.fragments.end() ? nullptr : &*found;
}

namespace {

/// Whether two lines say the same: what a program is called is for people, and a front end calls it as it likes.
bool say_the_same(std::string_view wanted, std::string_view here) {
  if (!wanted.starts_with(begins_program) || !here.starts_with(begins_program)) return wanted == here;
  return wanted.substr(0, wanted.find("  ")) == here.substr(0, here.find("  "));
}

}  // namespace

Status check_lock(std::string_view lock, const Program& program) {
  STITCH_ASSIGN(const std::vector<Line> all, split(lock));
  const std::vector<std::string> found = lines_of(program);
  std::vector<std::size_t> begins;  // of programs
  for (std::size_t i = 1; i < all.size(); ++i) {
    if (all[i].text.starts_with(begins_program)) begins.push_back(i);
  }
  std::size_t from = 1, to = all.size();
  if (begins.size() > 1) {
    // A package's programs for several GPUs may have one id.
    const std::string id = fmt::format("{}{} ", begins_program, program.id.hex());
    const auto is_its = [&](std::size_t i) { return all[i].text.starts_with(id); };
    auto own = std::ranges::find_if(
        begins, [&](std::size_t i) { return is_its(i) && i + 1 < all.size() && all[i + 1].text == found[1]; });
    if (own == begins.end()) own = std::ranges::find_if(begins, is_its);
    if (own == begins.end()) {
      return make_error(ErrorKind::constraint, "the lock has {} programs, and none is {} ({})", begins.size(),
                        program.id.hex(), on_one_line(program.model));
    }
    from = *own;
    if (std::next(own) != begins.end()) to = *std::next(own);
  }
  for (std::size_t i = 0; i < std::max(to - from, found.size()); ++i) {
    const bool is_locked = from + i < to;
    const std::string_view wanted = is_locked ? all[from + i].text : "nothing more";
    const std::string_view here = i < found.size() ? std::string_view(found[i]) : "nothing more";
    const int number = is_locked ? all[from + i].number : all[to - 1].number + 1;
    if (!say_the_same(wanted, here))
      return make_error(ErrorKind::constraint, "line {} of the lock: '{}', the program has '{}'", number, wanted, here);
  }
  return {};
}

}  // namespace stitch::api
