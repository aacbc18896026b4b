#include "cli/explain/drawing.h"

#include <gmock/gmock.h>

#include <set>

#include "cli/explain/svg.h"

namespace stitch::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Drawing, TextIsEscapedAndGroupsDiffer) {
  const Drawing drawing{{}, {{{"<b>"}, "a & \"b\""}, {{"x"}}}, {{0, 1}}};
  Layout layout;
  layout.boxes = {{{0, 0}, {50, 20}}, {{0, 60}, {50, 80}}};
  layout.arrows = {{{{25, 20}, {25, 30}, {25, 40}, {25, 55}}, {25, 60}, {}}};
  const std::string svg = to_svg(drawing, layout);
  EXPECT_THAT(svg, HasSubstr("&lt;b&gt;"));
  EXPECT_THAT(svg, HasSubstr("a &amp; &quot;b&quot;"));
  EXPECT_THAT(svg, Not(HasSubstr("<b>")));
  EXPECT_EQ(escape_xml(std::string("a\x01\x1f\nb", 5)), "a\nb");
  std::set<int> hues;
  for (int group = 0; group < 40; ++group) hues.insert(hue_of(group));
  EXPECT_GE(hues.size(), 36U);
}

TEST(Drawing, TextIsMeasuredInCharactersAndNotInBytes) {
  EXPECT_EQ(text_length("[4,768]·×…"), 10);
  EXPECT_EQ(shortened("·×·×·×", 6), "·×·×·×");
  EXPECT_EQ(shortened("·×·×·×", 4), "·×·…");
  EXPECT_EQ(text_length(shortened("reduce x2, divide x1", 10)), 10);
}

TEST(Drawing, BoxesHoldTheirLongestLine) {
  const Extent one = box_extent({{"multiply"}});
  const Extent two = box_extent({{"multiply", "0.0013020834"}});
  EXPECT_GT(two.width, one.width);
  EXPECT_GT(two.height, one.height);
  EXPECT_GT(two.width, text_extent({"0.0013020834"}).width);
}

}  // namespace
}  // namespace stitch::cli
