#include "cli/contractions/priced_tiles.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>

#include "costmodel/contraction/contraction_time.h"
#include "kernel/contraction/contraction_rules.h"
#include "kernel/contraction/realigned_copy.h"

namespace stitch::cli {
namespace {

using nlohmann::ordered_json;

/// Those that say how much there is room for, or what our loops can do: a tile that breaks them has a meaning, and a
/// time.
constexpr std::array<std::string_view, 6> of_room = {"stages", "fragment-stages", "warpgroups",
                                                     "split",  "shared-memory",   "registers"};

Result<int> number_of(const ordered_json& value) {
  constexpr int most = 1 << 20;
  if (value.is_number_integer() && value.get<std::int64_t>() >= 1 && value.get<std::int64_t>() <= most)
    return value.get<int>();
  return make_error(ErrorKind::parse, "'{}' is no positive number", value.dump());
}

/// `numbers` from an array of as many, or of fewer as long as there are `least`.
Status read_numbers(const ordered_json& tile, const char* field, std::size_t least, std::vector<int*> numbers) {
  const auto found = tile.find(field);
  if (found == tile.end() && least == 0) return {};
  const bool listed = found != tile.end() && found->is_array() && found->size() >= std::max<std::size_t>(1, least) &&
                      found->size() <= numbers.size();
  if (!listed) return make_error(ErrorKind::parse, "'{}' of a tile is no list of {} numbers", field, numbers.size());
  for (std::size_t at = 0; at < found->size(); ++at) {
    STITCH_ASSIGN(*numbers[at], number_of((*found)[at]));
  }
  return {};
}

/// Operands whose copies are realigned: some of "left" and "right".
Status read_realigned(const ordered_json& tile, kernel::ContractionSchedule& s) {
  const auto found = tile.find("realigned");
  if (found == tile.end()) return {};
  for (const ordered_json& side : *found) {
    if (side != "left" && side != "right")
      return make_error(ErrorKind::parse, "'realigned' of a tile names {}, neither left nor right", side.dump());
    (side == "left" ? s.left_realigned : s.right_realigned) = true;
  }
  return {};
}

Result<kernel::ContractionSchedule> schedule_of(const ordered_json& tile) {
  if (!tile.is_object()) return make_error(ErrorKind::parse, "a tile is no object");
  const auto name = tile.find("instruction");
  const auto known = std::ranges::find_if(kernel::instruction_table(), [&](const kernel::InstructionInfo& each) {
    return name != tile.end() && name->is_string() && name->get<std::string>() == each.name;
  });
  if (known == kernel::instruction_table().end())
    return make_error(ErrorKind::parse, "'instruction' of a tile names none");
  kernel::ContractionSchedule s;
  s.instruction = known->instruction;
  s.thread_rows = s.thread_columns = 0;
  s.stages = 1;
  STITCH_TRY(read_numbers(tile, "block", 3, {&s.block_rows, &s.block_columns, &s.block_depth}));
  STITCH_TRY(read_numbers(tile, "warp", 2, {&s.warp_rows, &s.warp_columns}));
  STITCH_TRY(read_numbers(tile, "stages", 0, {&s.stages, &s.fragment_stages}));
  for (const auto& [field, number] : {std::pair{"split", &s.split}, {"group", &s.group}}) {
    if (!tile.contains(field)) continue;
    STITCH_ASSIGN(*number, number_of(tile[field]));
  }
  if (tile.contains("streamed") && tile["streamed"] != 0) {
    STITCH_ASSIGN(s.streamed, number_of(tile["streamed"]));
  }
  STITCH_TRY(read_realigned(tile, s));
  if (s.instruction == kernel::ContractionInstruction::cuda_core) {
    s.thread_rows = std::max(1, s.warp_rows / 4);  // 4 × 8 lanes
    s.thread_columns = std::max(1, s.warp_columns / 8);
  }
  return s;
}

struct Priced {
  std::optional<double> us;
  std::string_view broken;  ///< empty: none
};

Priced price(const kernel::ContractionProblem& problem, kernel::ContractionSchedule schedule,
             const DeviceSpec& device) {
  const auto breaks = [&](const kernel::ContractionRule& rule) {
    return !rule.violation(problem, schedule, device).empty();
  };
  Priced priced;
  bool fitted = false;
  for (const kernel::ContractionRule& rule : kernel::contraction_rules()) {
    // Accesses are as wide as the tile allows: once it is seen to be one.
    if (!fitted && rule.name == "depth") {
      const bool left = std::exchange(schedule.left_realigned, false);
      const bool right = std::exchange(schedule.right_realigned, false);
      kernel::fit_accesses(problem, schedule);
      schedule = kernel::realigned(problem, schedule, left, right);
      fitted = true;
    }
    if (!breaks(rule)) continue;
    if (priced.broken.empty()) priced.broken = rule.name;
    if (std::ranges::find(of_room, rule.name) == of_room.end()) return priced;
  }
  priced.us = costmodel::contraction_time(problem, schedule, device).total;
  return priced;
}

Status price_line(const ordered_json& line, const std::map<std::string, const kernel::ContractionProblem*>& problems,
                  const DeviceSpec& device) {
  const auto name = line.find("name"), tiles = line.find("tiles");
  if (name == line.end() || !name->is_string() || tiles == line.end() || !tiles->is_array())
    return make_error(ErrorKind::parse, "no name and tiles");
  const auto problem = problems.find(name->get<std::string>());
  if (problem == problems.end())
    return make_error(ErrorKind::parse, "no product is called '{}'", name->get<std::string>());
  ordered_json us = ordered_json::array(), broken = ordered_json::array();
  for (const ordered_json& tile : *tiles) {
    STITCH_ASSIGN(const kernel::ContractionSchedule schedule, schedule_of(tile));
    const Priced priced = price(*problem->second, schedule, device);
    us.push_back(priced.us ? ordered_json(*priced.us) : ordered_json());
    broken.push_back(priced.broken.empty() ? ordered_json() : ordered_json(priced.broken));
  }
  const ordered_json made = {{"name", *name}, {"predicted_us", std::move(us)}, {"broken", std::move(broken)}};
  std::puts(made.dump(-1, ' ', false, ordered_json::error_handler_t::replace).c_str());
  return {};
}

}  // namespace

Result<ExitCode> price_tiles(const std::vector<NamedProblem>& problems, const DeviceSpec& device,
                             const std::filesystem::path& tiles) {
  std::map<std::string, const kernel::ContractionProblem*> products;
  for (const NamedProblem& each : problems) {
    if (const auto* product = std::get_if<kernel::ContractionProblem>(&each.problem)) products[each.name] = product;
  }
  RealFileSystem files;
  STITCH_ASSIGN(const std::string bytes, files.read(tiles));
  std::istringstream text(bytes);
  int number = 0;
  for (std::string line; std::getline(text, line);) {
    ++number;
    if (line.empty()) continue;
    const ordered_json object = ordered_json::parse(line, nullptr, false);
    const Status priced = object.is_object() ? price_line(object, products, device)
                                             : Status(make_error(ErrorKind::parse, "no JSON object"));
    if (!priced) return priced.error().within(fmt::format("{}, line {}", tiles.string(), number));
  }
  return ExitCode::success;
}

}  // namespace stitch::cli
