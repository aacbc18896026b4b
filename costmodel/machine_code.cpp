#include "costmodel/machine_code.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "costmodel/cubin_kernel.h"

namespace stitch::costmodel {
namespace {

/// A range of instructions, both ends included.
struct Range {
  int first = 0, last = 0;
  [[nodiscard]] int size() const { return last - first + 1; }
  [[nodiscard]] bool holds(const Range& other) const { return first <= other.first && other.last <= last; }
};

Result<std::vector<Range>> find_loops(const std::vector<MachineInstruction>& code) {
  std::vector<Range> loops;
  for (int i = 0; i < std::ssize(code); ++i) {
    const MachineInstruction& one = code[i];
    if (!one.target) continue;
    const auto to = std::lower_bound(code.begin(), code.end(), *one.target,
                                     [](const auto& other, std::int64_t address) { return other.address < address; });
    if (to == code.end() || to->address != *one.target)
      return make_error(ErrorKind::parse, "machine code: {} at {:#x} goes to {:#x}, where no instruction begins",
                        one.name, one.address, *one.target);
    const int first = to - code.begin();
    if (first < i) loops.push_back({first, i});
  }
  return loops;
}

int loads_in(const std::vector<MachineInstruction>& code, const Range& range) {
  return std::count_if(code.begin() + range.first, code.begin() + range.last + 1,
                       [](const MachineInstruction& one) { return one.is_load(); });
}

/// Loops without those that wait for other blocks (codegen/device/grid.cuh): the innermost around a pause.
std::vector<Range> without_waits(const std::vector<MachineInstruction>& code, std::vector<Range> loops) {
  for (int i = 0; i < std::ssize(code); ++i) {
    if (code[i].name != "NANOSLEEP") continue;
    auto wait = loops.end();
    for (auto loop = loops.begin(); loop != loops.end(); ++loop) {
      const bool holds = loop->first <= i && i <= loop->last;
      if (holds && (wait == loops.end() || loop->size() < wait->size())) wait = loop;
    }
    if (wait != loops.end()) loops.erase(wait);
  }
  return loops;
}

/// The innermost loop that loads; the largest of several. Without any: the largest innermost loop.
std::optional<Range> hot_loop(const std::vector<MachineInstruction>& code, const std::vector<Range>& loops) {
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

/// Bytes of local memory by the innermost loop around them.
std::vector<MachineCodeFeatures::LocalLoop> local_loops(const std::vector<MachineInstruction>& code,
                                                        const std::vector<Range>& loops) {
  std::vector<int> bytes(loops.size());
  for (int i = 0; i < std::ssize(code); ++i) {
    if (!code[i].is_local()) continue;
    const auto holds = [i](const Range& loop) { return loop.first <= i && i <= loop.last; };
    const Range* innermost = nullptr;
    for (const Range& loop : loops) {
      if (holds(loop) && (innermost == nullptr || loop.size() < innermost->size())) innermost = &loop;
    }
    if (innermost != nullptr) bytes[innermost - loops.data()] += code[i].width;
  }
  std::vector<MachineCodeFeatures::LocalLoop> found;
  for (std::size_t l = 0; l < loops.size(); ++l) {
    if (bytes[l] == 0) continue;
    MachineCodeFeatures::LocalLoop& one = found.emplace_back();
    one.local_bytes = bytes[l];
    for (int i = loops[l].first; i <= loops[l].last; ++i) one.load_bytes += code[i].is_load() ? code[i].width : 0;
  }
  return found;
}

/// Issues a range of instructions in order, one warp by itself: an instruction waits for the scoreboards that it names
/// and, by the stall count of the one before, for results of fixed latency.
class Issue {
 public:
  explicit Issue(const CodeLatencies& latencies) : latencies_(latencies) {}

  void run(const std::vector<MachineInstruction>& code, const Range& range) {
    for (int i = range.first; i <= range.last; ++i) step(code[i]);
  }
  [[nodiscard]] double now() const { return now_; }
  [[nodiscard]] int most_loads() const { return most_loads_; }
  [[nodiscard]] int most_bytes() const { return most_bytes_; }
  [[nodiscard]] int load_waits() const { return load_waits_; }

 private:
  /// A load on its way. Copies to shared memory have no scoreboard until LDGDEPBAR gives one to all that came before.
  struct Load {
    int board = no_scoreboard;
    int increment = 0;  ///< which raising of the scoreboard it belongs to
    int bytes = 0;      ///< of a lane
  };

  void step(const MachineInstruction& one) {
    const int settled = settled_;
    for (int board = 0; board < scoreboards; ++board) {
      if (((one.waits >> board) & 1U) != 0) wait(board, 0);
    }
    if (one.waits_on < scoreboards) wait(one.waits_on, one.waits_for_all_but);
    load_waits_ += settled_ > settled ? 1 : 0;
    const bool copies = one.name == "LDGDEPBAR";
    const double latency = one.is_load() || one.is_local() || copies ? latencies_.memory
                           : one.pipe == Pipe::shared                ? latencies_.shared
                                                                     : latencies_.special;
    raise(one.sets_result, now_ + latency);
    raise(one.sets_read, now_ + latencies_.special);
    if (copies && one.sets_result < scoreboards) {
      for (Load& load : outstanding_) {
        if (load.board == no_scoreboard) load = {one.sets_result, raised_[one.sets_result], load.bytes};
      }
    }
    if (one.is_load()) {
      const int increment = one.sets_result < scoreboards ? raised_[one.sets_result] : 0;
      outstanding_.push_back({one.sets_result, increment, one.width});
    }
    now_ += std::max(1, one.stall);
  }
  void raise(int board, double until) {
    if (board >= scoreboards) return;
    ready_[board] = std::max(ready_[board], until);
    arrivals_[board].push_back(until);
    ++raised_[board];
  }
  /// Waits until of all that raised a scoreboard the last `but` are left.
  void wait(int board, int but) {
    const int until = raised_[board] - but;  // raised so often
    if (until <= 0) return;
    now_ = std::max(now_, but == 0 ? ready_[board] : arrivals_[board][until - 1]);
    settle(board, until);
  }
  /// A wait for loads: how many were on their way then.
  void settle(int board, int until) {
    const auto is_settled = [&](const Load& load) { return load.board == board && load.increment <= until; };
    if (std::none_of(outstanding_.begin(), outstanding_.end(), is_settled)) return;
    int bytes = 0;
    for (const Load& load : outstanding_) bytes += load.bytes;
    most_loads_ = std::max<int>(most_loads_, outstanding_.size());
    most_bytes_ = std::max(most_bytes_, bytes);
    std::erase_if(outstanding_, is_settled);
    ++settled_;
  }

  const CodeLatencies latencies_;
  double now_ = 0;
  std::array<double, scoreboards> ready_{};
  std::array<std::vector<double>, scoreboards> arrivals_;  ///< when each raising is down again
  std::array<int, scoreboards> raised_{};
  std::vector<Load> outstanding_;
  int most_loads_ = 0, most_bytes_ = 0;
  int settled_ = 0, load_waits_ = 0;
};

/// Of the block or, once for its arrival and once for its wait, of the cluster.
bool is_barrier(const MachineInstruction& one) { return one.name == "BAR" || one.name.starts_with("UCGABAR"); }

void count_instruction(const MachineInstruction& one, MachineCodeFeatures& features) {
  ++features.instructions;
  ++features.by_pipe[one.pipe];
  features.stall_cycles += std::max(1, one.stall);
  features.barriers += one.name == "BAR" ? 1 : 0;
  const int width = one.width;
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

/// Copies of the engine too. Local memory is the thread's own, and constants are the launch's.
bool touches_device_memory(const MachineInstruction& one) {
  return one.is_load() || one.is_store() || one.name == "ATOM" || one.name == "UBLKCP" || one.name.starts_with("UTMA");
}

void find_wait(const std::vector<MachineInstruction>& code, MachineCodeFeatures& features) {
  int unwaited = 0;
  for (const MachineInstruction& one : code) {
    if (one.name == "ACQBULK") {
      features.awaits = !one.predicated;
      if (features.awaits) features.unwaited_loads = unwaited;
      return;
    }
    if (one.passes_l1) {
      ++unwaited;
    } else if (touches_device_memory(one)) {
      return;
    }
  }
}

/// Iterations of a loop before the one in which every wait is for what the loop has asked for.
int turns_ahead(const std::vector<MachineInstruction>& code, const Range& range) {
  int most = 0;
  for (int i = range.first; i <= range.last; ++i) {
    if (code[i].waits_on < scoreboards) most = std::max(most, code[i].waits_for_all_but);
  }
  return 1 + most;
}

void measure_hot(const std::vector<MachineInstruction>& code, const Range& range, bool loop,
                 const CodeLatencies& latencies, MachineCodeFeatures& features) {
  features.loop.loop = loop;
  features.loop.instructions = range.size();
  for (int i = range.first; i <= range.last; ++i) {
    const MachineInstruction& one = code[i];
    ++features.loop.by_pipe[one.pipe];
    if (one.is_load()) {
      ++features.loop.loads;
      features.loop.load_bytes += one.width;
    }
    if (one.is_local()) features.loop.local_bytes += one.width;
    if (one.waits != 0 || one.waits_on < scoreboards) ++features.loop.waits;
    if (is_barrier(one)) ++features.loop.barriers;
    features.loop.stall_cycles += std::max(1, one.stall);
  }
  Issue issue(latencies);
  // What an iteration leaves on its way is waited for in the next, of S stages of copies in the one S - 1 behind: the
  // first in which all that is waited for was asked for by the loop itself counts.
  for (int turn = loop ? turns_ahead(code, range) : 0; turn > 0; --turn) issue.run(code, range);
  const double before = issue.now();
  const int waits_before = issue.load_waits();
  issue.run(code, range);
  features.loop.cycles = issue.now() - before;
  features.loop.load_waits = issue.load_waits() - waits_before;
  features.loads_before_wait = issue.most_loads();
  features.bytes_before_wait = issue.most_bytes();
}

}  // namespace

double local_trips(const MachineCodeFeatures& code, double loaded_bytes, double iterations) {
  if (code.local_bytes == 0) return 1;
  double accessed = code.local_bytes;
  for (const MachineCodeFeatures::LocalLoop& loop : code.local_loops) {
    const double needed = loop.load_bytes > 0 ? loaded_bytes / loop.load_bytes : iterations;
    accessed += loop.local_bytes * (std::clamp(needed, 1.0, std::max(1.0, iterations)) - 1);
  }
  return accessed / code.local_bytes;
}

Result<MachineCodeFeatures> code_features(std::vector<MachineInstruction> code, const CodeLatencies& latencies) {
  STITCH_ASSIGN(const std::vector<Range> loops, find_loops(code));
  // Behind the end stand a branch to itself, which catches what runs on, and padding.
  while (code.size() > 1 && (code.back().name == "NOP" || (code.back().name == "BRA" && !code.back().predicated &&
                                                           code.back().target == code.back().address))) {
    code.pop_back();
  }
  MachineCodeFeatures features;
  for (const MachineInstruction& one : code) count_instruction(one, features);
  const Range all{0, static_cast<int>(code.size()) - 1};
  Issue once(latencies);
  once.run(code, all);
  features.cycles = once.now();
  features.loops = loops.size();
  find_wait(code, features);
  features.local_loops = local_loops(code, loops);
  const std::optional<Range> hot = hot_loop(code, without_waits(code, loops));
  measure_hot(code, hot.value_or(all), hot.has_value(), latencies, features);
  if (features.loop.loads == 0) {
    // Loads that no loop repeats: unrolled, or before the loops that compute with them.
    features.loads_before_wait = once.most_loads();
    features.bytes_before_wait = once.most_bytes();
  }
  return features;
}

Result<MachineCodeFeatures> read_machine_code(std::string_view cubin, std::string_view entry,
                                              const CodeLatencies& latencies) {
  STITCH_ASSIGN(const CubinKernel kernel, find_kernel(cubin, entry));
  STITCH_ASSIGN(std::vector<MachineInstruction> code, decode_instructions(kernel.code, kernel.architecture));
  return code_features(std::move(code), latencies);
}

}  // namespace stitch::costmodel
