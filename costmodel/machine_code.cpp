#include "costmodel/machine_code.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace stitch::costmodel {
namespace {

constexpr int scoreboards = 6;
constexpr int no_scoreboard = 7;

struct Instruction {
  std::int64_t address = 0;
  std::string operation;  ///< "LDG.E.128"
  std::string target;     ///< label of a branch, or empty
  bool predicated = false;
  Pipe pipe = Pipe::other;
  // Control fields of the encoding.
  int stall = 0;                    ///< cycles until the next instruction may issue
  int sets_result = no_scoreboard;  ///< raised until the result is there
  int sets_read = no_scoreboard;    ///< raised until the operands were read
  unsigned waits = 0;               ///< mask of scoreboards that must be down before it issues

  [[nodiscard]] std::string_view name() const { return std::string_view(operation).substr(0, operation.find('.')); }
  [[nodiscard]] bool has(std::string_view part) const { return operation.find(part) != std::string::npos; }
  [[nodiscard]] bool is_load() const { return name() == "LDG" || name() == "LD" || name() == "LDGSTS"; }
  [[nodiscard]] bool is_store() const {
    return name() == "STG" || name() == "ST" || name() == "RED" || name() == "REDG" || name().starts_with("ATOMG");
  }
  [[nodiscard]] bool is_local() const { return name() == "LDL" || name() == "STL"; }
  [[nodiscard]] int width() const {
    if (has(".128")) return 16;
    if (has(".64")) return 8;
    if (has(".U8") || has(".S8")) return 1;
    return has(".U16") || has(".S16") ? 2 : 4;
  }
};

struct PipeRow {
  std::string_view prefix;
  Pipe pipe;
};
/// The first row whose prefix the name has.
constexpr PipeRow pipe_table[] = {
    {"FSWZADD", Pipe::floating},  {"FADD", Pipe::floating},  {"FMUL", Pipe::floating},     {"FFMA", Pipe::floating},
    {"FSETP", Pipe::floating},    {"FSET", Pipe::floating},  {"FSEL", Pipe::floating},     {"FMNMX", Pipe::floating},
    {"FCHK", Pipe::floating},     {"F2FP", Pipe::half},      {"HMMA", Pipe::tensor},       {"HGMMA", Pipe::tensor},
    {"IMMA", Pipe::tensor},       {"IGMMA", Pipe::tensor},   {"DMMA", Pipe::tensor},       {"QGMMA", Pipe::tensor},
    {"HADD2", Pipe::half},        {"HMUL2", Pipe::half},     {"HFMA2", Pipe::half},        {"HSET", Pipe::half},
    {"HMNMX2", Pipe::half},       {"DADD", Pipe::wide},      {"DMUL", Pipe::wide},         {"DFMA", Pipe::wide},
    {"DSETP", Pipe::wide},        {"MUFU", Pipe::special},   {"I2FP", Pipe::integer},      {"I2F", Pipe::special},
    {"F2I", Pipe::special},       {"F2F", Pipe::special},    {"FRND", Pipe::special},      {"POPC", Pipe::special},
    {"FLO", Pipe::special},       {"BREV", Pipe::special},   {"LDGDEPBAR", Pipe::control}, {"LDGSTS", Pipe::memory},
    {"LDG", Pipe::memory},        {"STG", Pipe::memory},     {"LDL", Pipe::memory},        {"STL", Pipe::memory},
    {"REDUX", Pipe::integer},     {"RED", Pipe::memory},     {"ATOMS", Pipe::shared},      {"ATOM", Pipe::memory},
    {"CCTL", Pipe::memory},       {"UBLKCP", Pipe::memory},  {"UTMA", Pipe::memory},       {"LDSM", Pipe::shared},
    {"LDS", Pipe::shared},        {"STSM", Pipe::shared},    {"STS", Pipe::shared},        {"SHFL", Pipe::shared},
    {"MATCH", Pipe::shared},      {"SYNCS", Pipe::shared},   {"LDC", Pipe::uniform},       {"S2", Pipe::uniform},
    {"CS2R", Pipe::uniform},      {"R2UR", Pipe::uniform},   {"UCGABAR", Pipe::control},   {"U", Pipe::uniform},
    {"VOTE", Pipe::integer},      {"IADD", Pipe::integer},   {"IMAD", Pipe::integer},      {"IDP", Pipe::integer},
    {"IABS", Pipe::integer},      {"IMNMX", Pipe::integer},  {"VI", Pipe::integer},        {"ISETP", Pipe::integer},
    {"ISET", Pipe::integer},      {"LEA", Pipe::integer},    {"LOP", Pipe::integer},       {"PLOP3", Pipe::integer},
    {"SHF", Pipe::integer},       {"SHL", Pipe::integer},    {"SHR", Pipe::integer},       {"PRMT", Pipe::integer},
    {"SEL", Pipe::integer},       {"MOV", Pipe::integer},    {"BMSK", Pipe::integer},      {"SGXT", Pipe::integer},
    {"P2R", Pipe::integer},       {"R2P", Pipe::integer},    {"I2I", Pipe::integer},       {"BAR", Pipe::control},
    {"BRA", Pipe::control},       {"BRX", Pipe::control},    {"JM", Pipe::control},        {"EXIT", Pipe::control},
    {"BSSY", Pipe::control},      {"BSYNC", Pipe::control},  {"BREAK", Pipe::control},     {"BMOV", Pipe::control},
    {"CALL", Pipe::control},      {"RET", Pipe::control},    {"WARPSYNC", Pipe::control},  {"NOP", Pipe::control},
    {"DEPBAR", Pipe::control},    {"MEMBAR", Pipe::control}, {"ERRBAR", Pipe::control},    {"YIELD", Pipe::control},
    {"NANOSLEEP", Pipe::control}, {"FENCE", Pipe::control},  {"BPT", Pipe::control},       {"ACQ", Pipe::control},
    {"ELECT", Pipe::control},     {"LD", Pipe::memory},      {"ST", Pipe::memory},
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

/// The number in "/* 0x000e620000000a00 */" at the end of a line.
std::optional<std::uint64_t> encoding_word(std::string_view line) {
  const std::size_t at = line.rfind("/* 0x");
  if (at == std::string_view::npos) return std::nullopt;
  std::uint64_t word = 0;
  const char* const begin = line.data() + at + 5;
  const auto [end, error] = std::from_chars(begin, line.data() + line.size(), word, 16);
  if (error != std::errc() || end != begin + 16) return std::nullopt;
  return word;
}

class Reader {
 public:
  explicit Reader(std::string_view listing) : rest_(listing) {}

  Status read() {
    while (next()) {
      const std::string_view line = trimmed(line_);
      if (line.ends_with(':') && line.starts_with(".L")) {
        labels[std::string(line.substr(0, line.size() - 1))] = code.size();
      } else if (line.starts_with("/*") && !line.starts_with("/* ")) {
        STITCH_TRY(instruction(line));
      }
    }
    if (code.empty()) return make_error(ErrorKind::parse, "machine code: no instruction in {} lines", number_);
    return {};
  }

  std::vector<Instruction> code;
  std::map<std::string, int, std::less<>> labels;  ///< index of the instruction that follows

 private:
  bool next() {
    if (rest_.empty()) return false;
    const std::size_t end = rest_.find('\n');
    line_ = rest_.substr(0, end);
    rest_ = end == std::string_view::npos ? std::string_view() : rest_.substr(end + 1);
    ++number_;
    return true;
  }
  [[nodiscard]] Error wrong(std::string_view what) const {
    return make_error(ErrorKind::parse, "machine code, line {}: {}", number_, what);
  }

  /// "/*0050*/  @!P0 LDG.E R1, [R2.64] ;  /* 0x… */" and the second word on the next line.
  Status instruction(std::string_view line) {
    Instruction one;
    const std::size_t close = line.find("*/");
    if (close == std::string_view::npos) return wrong("an address without end");
    const auto [end, error] = std::from_chars(line.data() + 2, line.data() + close, one.address, 16);
    if (error != std::errc() || end != line.data() + close) return wrong("an address that is no number");
    std::string_view text = trimmed(line.substr(close + 2));
    const std::size_t stop = text.find(';');
    if (stop == std::string_view::npos) return wrong("an instruction without its end");
    text = trimmed(text.substr(0, stop));
    if (text.starts_with('@')) {
      one.predicated = true;
      text = trimmed(text.substr(std::min(text.find(' '), text.size())));
    }
    one.operation = std::string(text.substr(0, text.find(' ')));
    if (one.operation.empty()) return wrong("no operation");
    one.pipe = pipe_of(one.name());
    if (const std::size_t from = text.find("`("); from != std::string_view::npos && one.name() == "BRA")
      one.target = std::string(text.substr(from + 2, text.find(')', from) - from - 2));
    const auto low = encoding_word(line);
    if (!low || !next()) return wrong("no encoding: list with -hex");
    const auto high = encoding_word(line_);
    if (!high) return wrong("no second word of the encoding");
    control(*high, one);
    code.push_back(std::move(one));
    return {};
  }

  /// Bits 105 to 121 of the encoding, the same since Volta.
  static void control(std::uint64_t high, Instruction& one) {
    one.stall = (high >> 41) & 0xF;
    one.sets_result = (high >> 46) & 0x7;
    one.sets_read = (high >> 49) & 0x7;
    one.waits = (high >> 52) & 0x3F;
  }

  std::string_view rest_, line_;
  int number_ = 0;
};

/// A range of instructions, both ends included.
struct Range {
  int first = 0, last = 0;
  [[nodiscard]] int size() const { return last - first + 1; }
  [[nodiscard]] bool holds(const Range& other) const { return first <= other.first && other.last <= last; }
};

Result<std::vector<Range>> find_loops(const Reader& read) {
  std::vector<Range> loops;
  for (int i = 0; i < std::ssize(read.code); ++i) {
    const Instruction& one = read.code[i];
    if (one.target.empty()) continue;
    const auto to = read.labels.find(one.target);
    if (to == read.labels.end())
      return make_error(ErrorKind::parse, "machine code: {} at {:#x} goes to {}, which is not there", one.operation,
                        one.address, one.target);
    if (to->second < i) loops.push_back({to->second, i});
  }
  return loops;
}

int loads_in(const std::vector<Instruction>& code, const Range& range) {
  return std::count_if(code.begin() + range.first, code.begin() + range.last + 1,
                       [](const Instruction& one) { return one.is_load(); });
}

/// The innermost loop that loads; the largest of several. Without any: the largest innermost loop.
std::optional<Range> hot_loop(const std::vector<Instruction>& code, const std::vector<Range>& loops) {
  std::optional<Range> best;
  for (const bool loading : {true, false}) {
    const auto counts = [&](const Range& loop) { return !loading || loads_in(code, loop) > 0; };
    for (const Range& loop : loops) {
      const bool outer = std::any_of(loops.begin(), loops.end(), [&](const Range& other) {
        return loop.holds(other) && other.size() < loop.size() && counts(other);
      });
      if (counts(loop) && !outer && (!best || loop.size() > best->size())) best = loop;
    }
    if (best) break;
  }
  return best;
}

/// Issues a range of instructions in order, one warp by itself: an instruction waits for the scoreboards that it names
/// and, by the stall count of the one before, for results of fixed latency.
class Issue {
 public:
  explicit Issue(const CodeLatencies& latencies) : latencies_(latencies) {}

  void run(const std::vector<Instruction>& code, const Range& range) {
    for (int i = range.first; i <= range.last; ++i) step(code[i]);
  }
  [[nodiscard]] double now() const { return now_; }
  [[nodiscard]] int most_loads() const { return most_loads_; }
  [[nodiscard]] int most_bytes() const { return most_bytes_; }

 private:
  void step(const Instruction& one) {
    for (int board = 0; board < scoreboards; ++board) {
      if (((one.waits >> board) & 1U) == 0) continue;
      now_ = std::max(now_, ready_[board]);
      settle(board);
    }
    const double latency = one.is_load() || one.is_local() ? latencies_.memory
                           : one.pipe == Pipe::shared      ? latencies_.shared
                                                           : latencies_.special;
    raise(one.sets_result, now_ + latency);
    raise(one.sets_read, now_ + latencies_.special);
    if (one.is_load()) {
      outstanding_.push_back({one.sets_result, one.width()});
    }
    now_ += std::max(1, one.stall);
  }
  void raise(int board, double until) {
    if (board >= scoreboards) return;
    double& ready = ready_[board];
    ready = std::max(ready, until);
  }
  /// A wait for a load: how many were on their way then.
  void settle(int board) {
    if (std::none_of(outstanding_.begin(), outstanding_.end(), [&](const auto& load) { return load.first == board; }))
      return;
    int bytes = 0;
    for (const auto& [other, width] : outstanding_) bytes += width;
    most_loads_ = std::max<int>(most_loads_, outstanding_.size());
    most_bytes_ = std::max(most_bytes_, bytes);
    std::erase_if(outstanding_, [&](const auto& load) { return load.first == board; });
  }

  const CodeLatencies latencies_;
  double now_ = 0;
  std::array<double, scoreboards> ready_{};
  std::vector<std::pair<int, int>> outstanding_;  ///< loads: scoreboard, bytes of a lane
  int most_loads_ = 0, most_bytes_ = 0;
};

void count_instruction(const Instruction& one, MachineCodeFeatures& features) {
  ++features.instructions;
  ++features.by_pipe[one.pipe];
  features.stall_cycles += std::max(1, one.stall);
  features.barriers += one.name() == "BAR" ? 1 : 0;
  const int width = one.width();
  if (one.is_local()) {
    ++features.local_accesses;
    features.local_bytes += width;
  }
  if (one.is_load()) {
    ++features.loads;
    features.load_bytes += width;
    std::size_t place = 0;
    while ((1 << place) < width) ++place;
    ++features.load_widths[place];
  } else if (one.is_store()) {
    ++features.stores;
    features.store_bytes += width;
  }
}

void measure_hot(const std::vector<Instruction>& code, const Range& range, bool loop, const CodeLatencies& latencies,
                 MachineCodeFeatures& features) {
  features.loop.loop = loop;
  features.loop.instructions = range.size();
  for (int i = range.first; i <= range.last; ++i) {
    const Instruction& one = code[i];
    ++features.loop.by_pipe[one.pipe];
    if (one.is_load()) {
      ++features.loop.loads;
      features.loop.load_bytes += one.width();
    }
    if (one.is_local()) features.loop.local_bytes += one.width();
    features.loop.stall_cycles += std::max(1, one.stall);
  }
  Issue issue(latencies);
  issue.run(code, range);
  features.loop.cycles = issue.now();
  if (loop) {
    // What a first iteration leaves on its way is waited for in the next: that one counts.
    issue.run(code, range);
    features.loop.cycles = issue.now() - features.loop.cycles;
  }
  features.loads_before_wait = issue.most_loads();
  features.bytes_before_wait = issue.most_bytes();
}

}  // namespace

std::string_view to_string(Pipe pipe) {
  constexpr std::string_view names[] = {"floating", "half",   "wide",    "integer", "special", "memory",
                                        "shared",   "tensor", "uniform", "control", "other"};
  static_assert(std::size(names) == pipe_count);
  return names[static_cast<std::size_t>(pipe)];
}

Pipe pipe_of(std::string_view operation) {
  const std::string_view name = operation.substr(0, operation.find('.'));
  for (const PipeRow& row : pipe_table) {
    if (name.starts_with(row.prefix)) return row.pipe;
  }
  return Pipe::other;
}

Result<MachineCodeFeatures> parse_machine_code(std::string_view listing, const CodeLatencies& latencies) {
  Reader read(listing);
  STITCH_TRY(read.read());
  STITCH_ASSIGN(const std::vector<Range> loops, find_loops(read));
  // Behind the end stand a branch to itself, which catches what runs on, and padding.
  std::vector<Instruction>& code = read.code;
  while (code.size() > 1 && (code.back().name() == "NOP" ||
                             (code.back().name() == "BRA" && !code.back().predicated && !code.back().target.empty() &&
                              read.labels.at(code.back().target) == std::ssize(code) - 1))) {
    code.pop_back();
  }
  MachineCodeFeatures features;
  for (const Instruction& one : code) count_instruction(one, features);
  const Range all{0, static_cast<int>(code.size()) - 1};
  Issue once(latencies);
  once.run(code, all);
  features.cycles = once.now();
  features.loops = loops.size();
  const std::optional<Range> hot = hot_loop(code, loops);
  measure_hot(code, hot.value_or(all), hot.has_value(), latencies, features);
  return features;
}

}  // namespace stitch::costmodel
