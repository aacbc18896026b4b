#include "cli/graph_drawing.h"

#include <gmock/gmock.h>

#include <set>

#include "base/random.h"

namespace stitch::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Drawing, ArrowsPointDownAndNothingOverlaps) {
  Random random(7);
  for (int round = 0; round < 50; ++round) {
    Drawing drawing;
    const int nodes = 1 + static_cast<int>(random.below(40));
    for (int n = 0; n < nodes; ++n) {
      drawing.nodes.push_back({"n", "", static_cast<int>(random.below(5)) - 1});
      for (int from = 0; from < n; ++from) {
        if (random.below(8) == 0) drawing.edges.emplace_back(from, n);
      }
    }
    const auto places = lay_out(drawing);
    std::set<std::pair<int, int>> taken;
    for (const NodePlace& place : places) EXPECT_TRUE(taken.emplace(place.layer, place.position).second);
    for (const auto& [from, to] : drawing.edges) {
      EXPECT_LT(places[from].layer, places[to].layer);
    }
  }
}

TEST(Drawing, AChainsNodesStandUnderOneAnother) {
  const Drawing drawing{{{"a", "", 0}, {"b", "", 0}, {"c", "", 1}, {"d", "", 1}}, {{0, 2}, {1, 3}}};
  const auto places = lay_out(drawing);
  EXPECT_EQ(places[0].position, places[2].position);
  EXPECT_EQ(places[1].position, places[3].position);
}

TEST(Drawing, TextIsEscapedAndGroupsDiffer) {
  const std::string svg = to_svg({{{"<b>", "a & \"b\"", 0}, {"x", "", -1}}, {{0, 1}}});
  EXPECT_THAT(svg, HasSubstr("&lt;b&gt;"));
  EXPECT_THAT(svg, HasSubstr("a &amp; &quot;b&quot;"));
  EXPECT_THAT(svg, Not(HasSubstr("<b>")));
  std::set<std::string> colours;
  for (int group = 0; group < 40; ++group) colours.insert(group_colour(group));
  EXPECT_GE(colours.size(), 36U);
}

}  // namespace
}  // namespace stitch::cli
