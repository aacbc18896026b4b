#include "cli/contractions/priced_products.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <type_traits>

#include "costmodel/contraction/attention_time.h"
#include "costmodel/contraction/chain_time.h"
#include "costmodel/contraction/contraction_time.h"
#include "costmodel/contraction/product_features.h"
#include "costmodel/uncertainty.h"
#include "search/contraction/attention_space.h"
#include "search/contraction/chain_space.h"
#include "search/contraction/contraction_space.h"

namespace stitch::cli {
namespace {

using nlohmann::ordered_json;
using Lines = std::vector<PricedLine>;

/// What the compiler said, in the words of codegen::ResourceUsage::describe.
std::optional<costmodel::CompiledFacts> compiled_of(const ordered_json& line) {
  const std::string text = line.value("resources", "");
  costmodel::CompiledFacts facts;
  if (std::sscanf(text.c_str(), "%d registers", &facts.registers) != 1) return std::nullopt;
  const auto number_before = [&](std::string_view words) -> std::int64_t {
    const std::size_t at = text.find(words);
    if (at == std::string::npos) return 0;
    const std::size_t from = text.find_last_of(' ', at - 1);
    return std::atoll(text.c_str() + (from == std::string::npos ? 0 : from + 1));
  };
  facts.shared_bytes = number_before(" bytes shared");
  if (const std::size_t at = text.find(" bytes spilled"); at != std::string::npos) {
    const std::size_t from = text.find_last_of(' ', at - 1);
    long long stores = 0, loads = 0;
    if (std::sscanf(text.c_str() + from, " %lld/%lld", &stores, &loads) == 2) facts.spill_bytes = stores + loads;
  }
  return facts;
}

/// Gives the lines of one problem their predictions, by schedule.
class Pricer {
 public:
  Pricer(const DeviceSpec& device, Lines& lines) : device_(device) {
    for (PricedLine& line : lines) {
      if (line.line.contains("schedule")) wanted_[line.line["schedule"].get<std::string>()].push_back(&line);
    }
  }

  void operator()(const kernel::ContractionProblem& problem) {
    library_us_ = costmodel::library_us(problem, device_);
    search::for_each_contraction(problem, device_, {}, [&](const kernel::ContractionSchedule& each) {
      for (const int group : {1, 2, 4, 8, 16}) {
        kernel::ContractionSchedule schedule = each;
        schedule.group = group;
        price(problem, schedule, [&] { return costmodel::contraction_time(problem, schedule, device_); });
      }
    });
  }
  void operator()(const kernel::AttentionProblem& problem) {
    library_us_ = costmodel::unfused_attention_us(problem, device_);
    search::for_each_attention(
        problem, device_, {}, [&](const kernel::AttentionSchedule& schedule, const kernel::KeyWalk& walk) {
          price(problem, schedule, [&] { return costmodel::attention_time(problem, schedule, walk, device_); });
        });
  }
  void operator()(const kernel::ProductChain& chain) {
    library_us_ = costmodel::unfused_chain_us(chain, device_);
    search::for_each_chain(chain, device_, {}, [&](const kernel::ChainSchedule& schedule, const kernel::KeyWalk& walk) {
      price(chain, schedule, [&] { return costmodel::chain_time(chain, schedule, walk, device_); });
    });
  }

 private:
  template <class Problem, class Schedule, class TimeOf>
  void price(const Problem& problem, const Schedule& schedule, const TimeOf& time_of) const {
    const auto found = wanted_.find(schedule_hash(schedule).hex());
    if (found == wanted_.end()) return;
    const auto time = time_of();
    for (PricedLine* line : found->second) {
      const auto compiled = compiled_of(line->line);
      line->analytical_us = time.total;
      line->features = costmodel::to_row(
          costmodel::product_features(problem, schedule, time, device_, compiled ? &*compiled : nullptr));
      line->spills = compiled && compiled->spill_bytes > 0;
      line->what = to_string(schedule);
      line->bound_by = time.binding().first;
      line->library_us = library_us_;
      if constexpr (std::is_same_v<Problem, kernel::ContractionProblem>) {
        line->uncertainty_us =
            costmodel::difference_uncertainty_us(problem, schedule, std::max(time.total, library_us_));
      }
      line->parts = {{"launch", time.launch},
                     {"fill", time.fill},
                     {"epilogue", time.epilogue},
                     {"partial", time.partial},
                     {"rounds", time.rounds}};
      for (const auto& [name, us] : time.limits()) line->parts[name] = us;
    }
  }

  const DeviceSpec& device_;
  double library_us_ = 0;
  std::map<std::string, std::vector<PricedLine*>> wanted_;
};

/// The lines by problem.
Result<std::map<std::string, Lines>> read_lines(const std::filesystem::path& path) {
  RealFileSystem files;
  STITCH_ASSIGN(const std::string bytes, files.read(path));
  std::map<std::string, Lines> lines;
  std::istringstream text(bytes);
  int number = 0;
  for (std::string line; std::getline(text, line);) {
    ++number;
    if (!line.starts_with('{')) continue;  // bench/gpu/run_all notes its commands between them
    ordered_json object = ordered_json::parse(line, nullptr, false);
    const bool whole = object.is_object() && object.contains("name") && object["name"].is_string() &&
                       (!object.contains("schedule") || object["schedule"].is_string());
    if (!whole) return make_error(ErrorKind::parse, "{}, line {}: no measurement of a product", path.string(), number);
    for (const char* predicted : {"predicted_us", "library_us", "uncertainty_us", "bound_by", "parts"})
      object.erase(predicted);
    const auto name = object["name"].get<std::string>();
    lines[name].emplace_back().line = std::move(object);
  }
  return lines;
}

}  // namespace

Result<std::map<std::string, std::vector<PricedLine>>> price_lines(const std::vector<NamedProblem>& problems,
                                                                   const DeviceSpec& device,
                                                                   const std::filesystem::path& measured) {
  STITCH_ASSIGN(auto lines, read_lines(measured));
  for (const NamedProblem& problem : problems) {
    const auto found = lines.find(problem.name);
    if (found != lines.end()) std::visit(Pricer(device, found->second), problem.problem);
  }
  return lines;
}

Result<ExitCode> price_measured(const std::vector<NamedProblem>& problems, const DeviceSpec& device,
                                const std::filesystem::path& measured) {
  STITCH_ASSIGN(auto lines, price_lines(problems, device, measured));
  std::size_t left_out = 0;
  for (const NamedProblem& problem : problems) {
    const auto found = lines.find(problem.name);
    if (found == lines.end()) continue;
    for (PricedLine& priced : found->second) {
      if (priced.analytical_us == 0) {
        ++left_out;
        continue;
      }
      ordered_json& line = priced.line;
      line["predicted_us"] = priced.analytical_us;
      line["library_us"] = priced.library_us;
      if (priced.uncertainty_us > 0) line["uncertainty_us"] = priced.uncertainty_us;
      line["bound_by"] = priced.bound_by;
      line["parts"] = std::move(priced.parts);
      line["what"] = priced.what;
      std::puts(line.dump(-1, ' ', false, ordered_json::error_handler_t::replace).c_str());
    }
    lines.erase(found);
  }
  for (const auto& [name, rest] : lines) left_out += rest.size();
  if (left_out > 0) std::fprintf(stderr, "%zu lines of schedules or problems that are not there today\n", left_out);
  return ExitCode::success;
}

}  // namespace stitch::cli
