#include "cli/contractions/priced_products.h"

#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "costmodel/contraction/attention_time.h"
#include "costmodel/contraction/chain_time.h"
#include "costmodel/contraction/contraction_time.h"
#include "search/contraction/attention_space.h"
#include "search/contraction/chain_space.h"
#include "search/contraction/contraction_space.h"

namespace stitch::cli {
namespace {

using nlohmann::ordered_json;
using Lines = std::vector<ordered_json>;

template <class Time>
void set_prediction(const Time& time, double library_us, ordered_json& line) {
  line["predicted_us"] = time.total;
  line["library_us"] = library_us;
  line["bound_by"] = time.binding().first;
  ordered_json parts = {{"launch", time.launch},
                        {"fill", time.fill},
                        {"epilogue", time.epilogue},
                        {"partial", time.partial},
                        {"rounds", time.rounds}};
  for (const auto& [name, us] : time.limits()) parts[name] = us;
  line["parts"] = std::move(parts);
}

/// Gives the lines of one problem their predictions, by schedule.
class Pricer {
 public:
  Pricer(const DeviceSpec& device, Lines& lines) : device_(device) {
    for (ordered_json& line : lines) {
      if (line.contains("schedule")) wanted_[line["schedule"].get<std::string>()].push_back(&line);
    }
  }

  void operator()(const kernel::ContractionProblem& problem) {
    const double library_us = costmodel::library_us(problem, device_);
    search::for_each_contraction(problem, device_, {}, [&](const kernel::ContractionSchedule& each) {
      for (const int group : {1, 2, 4, 8, 16}) {
        kernel::ContractionSchedule schedule = each;
        schedule.group = group;
        for (ordered_json* line : lines_of(schedule_hash(schedule))) {
          set_prediction(costmodel::contraction_time(problem, schedule, device_), library_us, *line);
          (*line)["what"] = to_string(schedule);
        }
      }
    });
  }
  void operator()(const kernel::AttentionProblem& problem) {
    const double library_us = costmodel::unfused_attention_us(problem, device_);
    search::for_each_attention(
        problem, device_, {}, [&](const kernel::AttentionSchedule& schedule, const kernel::KeyWalk& walk) {
          for (ordered_json* line : lines_of(schedule_hash(schedule))) {
            set_prediction(costmodel::attention_time(problem, schedule, walk, device_), library_us, *line);
            (*line)["what"] = to_string(schedule);
          }
        });
  }
  void operator()(const kernel::ProductChain& chain) {
    const double library_us = costmodel::unfused_chain_us(chain, device_);
    search::for_each_chain(chain, device_, {}, [&](const kernel::ChainSchedule& schedule, const kernel::KeyWalk& walk) {
      for (ordered_json* line : lines_of(schedule_hash(schedule))) {
        set_prediction(costmodel::chain_time(chain, schedule, walk, device_), library_us, *line);
        (*line)["what"] = to_string(schedule);
      }
    });
  }

 private:
  [[nodiscard]] std::vector<ordered_json*> lines_of(const Hash128& schedule) const {
    const auto found = wanted_.find(schedule.hex());
    return found == wanted_.end() ? std::vector<ordered_json*>() : found->second;
  }

  const DeviceSpec& device_;
  std::map<std::string, std::vector<ordered_json*>> wanted_;
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
    for (const char* predicted : {"predicted_us", "library_us", "bound_by", "parts"}) object.erase(predicted);
    lines[object["name"].get<std::string>()].push_back(std::move(object));
  }
  return lines;
}

}  // namespace

Result<ExitCode> price_measured(const std::vector<NamedProblem>& problems, const DeviceSpec& device,
                                const std::filesystem::path& measured) {
  STITCH_ASSIGN(auto lines, read_lines(measured));
  std::size_t left_out = 0;
  for (const NamedProblem& problem : problems) {
    const auto found = lines.find(problem.name);
    if (found == lines.end()) continue;
    std::visit(Pricer(device, found->second), problem.problem);
    for (const ordered_json& line : found->second) {
      if (line.contains("parts")) {
        std::puts(line.dump(-1, ' ', false, ordered_json::error_handler_t::replace).c_str());
      } else {
        ++left_out;
      }
    }
    lines.erase(found);
  }
  for (const auto& [name, rest] : lines) left_out += rest.size();
  if (left_out > 0) std::fprintf(stderr, "%zu lines of schedules or problems that are not there today\n", left_out);
  return ExitCode::success;
}

}  // namespace stitch::cli
