#include "cli/explain/pipeline_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/explain/drawing.h"
#include "cli/explain/svg.h"

namespace stitch::cli {
namespace {

constexpr int text_columns = 72;

/// Turns of the simulation before those that are judged: every place has been used twice by then.
std::int64_t settled_turns(const costmodel::PipelineTurn& turn) { return 3 * static_cast<std::int64_t>(turn.stages); }

/// Tile by tile: a place is asked to be filled when it is free, and a turn begins when its tile is there and the turn
/// before it lies `busy_us` back.
std::vector<PipelineTimeline::Tile> simulated(const costmodel::PipelineTurn& turn, std::int64_t count) {
  std::vector<PipelineTimeline::Tile> tiles;
  for (std::int64_t t = 0; t < count; ++t) {
    PipelineTimeline::Tile& tile = tiles.emplace_back();
    tile.number = t;
    tile.stage = static_cast<int>(t % turn.stages);
    if (t >= turn.stages) tile.asked_us = tiles[t - turn.stages].end_us;
    tile.there_us = tile.asked_us + turn.load_us;
    tile.begin_us = t == 0 ? tile.there_us + turn.between_us
                           : std::max(tile.there_us + turn.between_us, tiles[t - 1].begin_us + turn.busy_us);
    tile.end_us = tile.begin_us + turn.use_us;
  }
  return tiles;
}

std::vector<std::string> words_of(const PipelineTimeline& timeline) {
  const costmodel::PipelineTurn& turn = timeline.turn;
  const auto counted = [](std::int64_t count, const char* what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
  };
  std::vector<std::string> lines;
  lines.push_back(fmt::format("pipeline: {} on the way or in use, {} of one in registers; {} of a block, {} an SM",
                              counted(turn.stages, "tile"), counted(turn.fragment_stages, "step"),
                              counted(turn.turns, "turn"), counted(turn.blocks, "block")));
  const std::string waits = timeline.waits_us > 0
                                ? fmt::format("a turn waits {:.3f} us for its tile", timeline.waits_us)
                                : "loads are hidden";
  lines.push_back(
      fmt::format("a tile is there {:.3f} us after it is asked for, and used for {:.3f} of a turn's {:.3f} us: {}",
                  turn.load_us, turn.use_us, turn.busy_us + timeline.waits_us, waits));
  return lines;
}

}  // namespace

PipelineTimeline timeline_of(const costmodel::PipelineTurn& turn, std::int64_t most) {
  PipelineTimeline timeline{turn, simulated(turn, std::min(most, turn.turns)), 0};
  const std::int64_t settled = settled_turns(turn);
  const std::vector<PipelineTimeline::Tile> all = simulated(turn, settled + turn.stages + 1);
  // Of one place from use to use, so that tiles that come in bursts are not judged by their neighbour.
  const double period = (all[settled + turn.stages].begin_us - all[settled].begin_us) / turn.stages;
  timeline.waits_us = std::max(0.0, period - turn.busy_us);
  if (timeline.waits_us < 1e-9 * period) timeline.waits_us = 0;
  return timeline;
}

std::string to_text(const PipelineTimeline& timeline) {
  std::string text;
  for (const std::string& line : words_of(timeline)) text += fmt::format("    {}\n", line);
  if (timeline.tiles.empty()) return text;
  const double end = timeline.tiles.back().end_us;
  const auto column = [&](double us) { return std::min(text_columns - 1, static_cast<int>(us / end * text_columns)); };
  std::vector<std::string> rows(timeline.turn.stages, std::string(text_columns, ' '));
  for (const PipelineTimeline::Tile& tile : timeline.tiles) {
    std::string& row = rows[tile.stage];
    for (int c = column(tile.asked_us); c < column(tile.there_us); ++c) row[c] = '.';
    for (int c = column(tile.there_us); c < column(tile.begin_us); ++c) row[c] = '-';
    for (int c = column(tile.begin_us); c < std::max(column(tile.end_us), column(tile.begin_us) + 1); ++c)
      row[c] = static_cast<char>('0' + tile.number % 10);
  }
  for (std::size_t stage = 0; stage < rows.size(); ++stage)
    text += fmt::format("      {:>2} |{}|\n", stage, rows[stage]);
  return text + fmt::format("         0{:>{}.2f} us\n", end, text_columns);
}

nlohmann::ordered_json to_document(const PipelineTimeline& timeline) {
  const costmodel::PipelineTurn& turn = timeline.turn;
  nlohmann::ordered_json tiles = nlohmann::ordered_json::array();
  for (const PipelineTimeline::Tile& tile : timeline.tiles) {
    tiles.push_back({{"tile", tile.number},
                     {"stage", tile.stage},
                     {"asked_us", tile.asked_us},
                     {"there_us", tile.there_us},
                     {"begin_us", tile.begin_us},
                     {"end_us", tile.end_us}});
  }
  return {{"turns", turn.turns},          {"stages", turn.stages},         {"fragment_stages", turn.fragment_stages},
          {"blocks_per_sm", turn.blocks}, {"load_us", turn.load_us},       {"use_us", turn.use_us},
          {"busy_us", turn.busy_us},      {"waits_us", timeline.waits_us}, {"tiles", std::move(tiles)}};
}

std::string to_svg(const PipelineTimeline& timeline) {
  if (timeline.tiles.empty()) return {};
  constexpr double row = 22, bar = 16, left = 64, wide = 720, axis = 20;
  const double end = timeline.tiles.back().end_us, height = row * timeline.turn.stages + axis;
  const auto x = [&](double us) { return left + us / end * wide; };
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "font-size=\"{2:.0f}\" font-family=\"monospace\">",
      left + wide + 8, height, measure::box_font);
  const auto text = [&](double at, double y, const char* anchor, const std::string& words) {
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" fill=\"var(--ink)\">{}</text>", at, y,
                       anchor, escape_xml(words));
  };
  for (int stage = 0; stage < timeline.turn.stages; ++stage)
    text(4, row * stage + 14, "start", fmt::format("place {}", stage));
  for (const PipelineTimeline::Tile& tile : timeline.tiles) {
    const auto part = [&](double from, double to, const char* fill, const std::string& what) {
      if (to <= from) return;
      svg += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"var(--{})\" "
          "stroke=\"var(--line)\">"
          "<title>tile {} {}: {:.3f} to {:.3f} us</title></rect>",
          x(from), row * tile.stage + 2, x(to) - x(from), bar, fill, tile.number, what, from, to);
    };
    part(tile.asked_us, tile.there_us, "tensor", "is on the way");
    part(tile.there_us, tile.begin_us, "box", "waits");
    part(tile.begin_us, tile.end_us, "reduction", "is used");
    text((x(tile.begin_us) + x(tile.end_us)) / 2, row * tile.stage + 14, "middle", std::to_string(tile.number));
  }
  text(left, height - 5, "start", "0");
  text(left + wide, height - 5, "end", fmt::format("{:.2f} us", end));
  return svg + "</svg>";
}

}  // namespace stitch::cli
