#include "cli/explain/layout.h"

#include <gmock/gmock.h>

#include "base/random.h"

namespace stitch::cli {
namespace {

using testing::HasSubstr;

constexpr double slack = 0.6;  // dot prints five digits, and rounds sizes of labels to whole points

bool overlap(const Rectangle& a, const Rectangle& b) {
  return a.from.x + slack < b.to.x && b.from.x + slack < a.to.x && a.from.y + slack < b.to.y &&
         b.from.y + slack < a.to.y;
}

bool holds(const Rectangle& outer, const Rectangle& inner) {
  return outer.from.x <= inner.from.x + slack && outer.from.y <= inner.from.y + slack &&
         inner.to.x <= outer.to.x + slack && inner.to.y <= outer.to.y + slack;
}

/// Boxes in up to five frames, which follow one another as the kernels of a plan do.
Drawing random_drawing(Random& random) {
  Drawing drawing;
  const int nodes = 6 + static_cast<int>(random.below(40));
  const int frames = static_cast<int>(random.below(6));
  for (int f = 0; f < frames; ++f) {
    drawing.frames.push_back({{"kernel " + std::to_string(f), "what it computes"}, "", hue_of(f)});
  }
  for (int n = 0; n < nodes; ++n) {
    const bool is_loose = n >= frames && random.below(6) == 0;
    const int frame = is_loose || frames == 0 ? -1 : n < frames ? n : n * frames / nodes;
    drawing.boxes.push_back({{"add", std::string(random.below(20), 'x')}, "", Drawing::Look::elementwise, frame, ""});
    for (int from = 0; from < n; ++from) {
      if (random.below(8) == 0) drawing.arrows.push_back({from, n, random.below(3) == 0 ? "" : "f32[8,768]", ""});
    }
  }
  return drawing;
}

Result<Layout> laid_out(const Drawing& drawing) {
  RealProcessLauncher launcher;
  return lay_out(drawing, launcher, deadline_in(60));
}

void expect_sound(const Drawing& drawing, const Layout& layout) {
  const Rectangle picture{{0, 0}, {layout.size.width, layout.size.height}};
  for (std::size_t b = 0; b < drawing.boxes.size(); ++b) {
    const Rectangle& box = layout.boxes[b];
    const Extent text = text_extent(drawing.boxes[b].lines);
    EXPECT_GE(box.width() + slack, text.width) << "a label is wider than its box";
    EXPECT_GE(box.height() + slack, text.height);
    EXPECT_TRUE(holds(picture, box));
    for (std::size_t other = 0; other < b; ++other) EXPECT_FALSE(overlap(box, layout.boxes[other]));
    for (int f = 0; f < std::ssize(drawing.frames); ++f) {
      const bool inside = drawing.boxes[b].frame == f;
      EXPECT_TRUE(inside ? holds(layout.frames[f], box) : !overlap(layout.frames[f], box));
      EXPECT_FALSE(inside && overlap(layout.titles[f], box)) << "a box lies on its frame's title";
    }
  }
  for (std::size_t a = 0; a < drawing.arrows.size(); ++a) {
    const Drawing::Arrow& arrow = drawing.arrows[a];
    EXPECT_LT(layout.boxes[arrow.from].from.y, layout.boxes[arrow.to].from.y) << "an arrow points upwards";
    EXPECT_EQ(layout.arrows[a].points.size() % 3, 1U);
    EXPECT_TRUE(arrow.label.empty() || holds(picture, layout.arrows[a].label));
  }
}

TEST(Layout, ArrowsPointDownAndNothingOverlaps) {
  Random random(7);
  for (int round = 0; round < 50; ++round) {
    SCOPED_TRACE(round);
    const Drawing drawing = random_drawing(random);
    const auto layout = laid_out(drawing);
    ASSERT_TRUE(layout.ok()) << layout.error().message;
    expect_sound(drawing, *layout);
  }
}

TEST(Layout, AChainsNodesStandUnderOneAnother) {
  const Drawing drawing{{}, {{{"a"}}, {{"b"}}, {{"c"}}, {{"d"}}}, {{0, 2}, {1, 3}}};
  const auto layout = laid_out(drawing);
  ASSERT_TRUE(layout.ok()) << layout.error().message;
  EXPECT_NEAR(layout->boxes[0].from.x, layout->boxes[2].from.x, slack);
  EXPECT_NEAR(layout->boxes[1].from.x, layout->boxes[3].from.x, slack);
}

TEST(Layout, CirclesAreLaidOutToo) {
  const Drawing drawing{{}, {{{"layer"}}, {{"matmul"}}}, {{0, 1, "f32[8]"}, {1, 0, "f32[8]"}}};
  const auto layout = laid_out(drawing);
  ASSERT_TRUE(layout.ok()) << layout.error().message;
  for (const Layout::Curve& curve : layout->arrows) EXPECT_GT(curve.label.width(), 0);
}

TEST(Layout, WhatDotPrintsIsNotTrusted) {
  const Drawing drawing{{{{"kernel 0"}, "", 0}}, {{{"a"}}, {{"b"}}}, {{0, 1, "f32[8]"}}};
  for (const char* text :
       {"", "[]", "{}", R"({"bb": 7})", R"({"bb": "0,0,x"})", R"({"bb": "0,0,9,9", "objects": [{"name": "b7"}]})",
        R"({"bb": "0,0,9,9", "objects": [{"name": "b0", "pos": "1"}]})",
        R"({"bb": "0,0,9,9", "objects": [{"name": "cluster5"}]})", R"({"bb": "0,0,9,9", "objects": [[]]})",
        R"({"bb": "0,0,9,9", "edges": [{"id": "a0", "pos": "1,2 3,4"}]})",
        R"({"bb": "0,0,9,9", "edges": [{"id": "a0", "pos": "e,1,2 3,4"}]})"}) {
    const auto layout = read_layout(drawing, text);
    ASSERT_FALSE(layout.ok()) << text;
    EXPECT_EQ(layout.error().kind, ErrorKind::parse) << text;
  }
}

/// A machine on which no program is found.
class EmptyMachine final : public ProcessLauncher {
 public:
  Result<std::unique_ptr<Process>> start(const ProcessOptions& options) override {
    return make_error(ErrorKind::not_found, "no program '{}'", options.arguments.front());
  }
};

TEST(Layout, WithoutGraphvizTheErrorNamesThePackage) {
  EmptyMachine machine;
  const auto layout = lay_out({{}, {{{"a"}}}, {}}, machine, deadline_in(1));
  ASSERT_FALSE(layout.ok());
  EXPECT_EQ(layout.error().kind, ErrorKind::unavailable);
  EXPECT_THAT(layout.error().message, HasSubstr("package graphviz"));
}

}  // namespace
}  // namespace stitch::cli
