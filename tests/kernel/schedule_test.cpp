#include "kernel/program/schedule.h"

#include <gtest/gtest.h>

namespace stitch::kernel {
namespace {

TEST(AxisMapping, LevelsStepOverThoseInsideThem) {
  AxisMapping m;
  m.at(Level::vector) = 4;
  m.at(Level::lane) = 32;
  m.at(Level::warp) = 2;
  m.at(Level::reg) = 3;
  m.at(Level::loop) = 5;
  m.at(Level::cluster) = 7;
  m.at(Level::grid) = 11;
  const std::vector<std::int64_t> steps = {1, 4, 128, 256, 768, 3840, 26880};
  for (std::size_t i = 0; i < level_count; ++i) EXPECT_EQ(m.step(static_cast<Level>(i)), steps[i]) << i;
  EXPECT_EQ(m.per_thread(), 4 * 3 * 5);
  EXPECT_EQ(m.threads(), 64);
  EXPECT_EQ(m.per_block(), 3840);
}

TEST(AxisMapping, AnInterleavedLoopStepsOverTheGrid) {
  AxisMapping m;
  m.at(Level::vector) = 4;
  m.at(Level::lane) = 32;
  m.at(Level::warp) = 2;
  m.at(Level::reg) = 3;
  m.at(Level::loop) = 5;
  m.at(Level::cluster) = 7;
  m.at(Level::grid) = 11;
  const std::int64_t covered = m.covered();
  m.interleaved = true;
  const std::vector<std::int64_t> steps = {1, 4, 128, 256, 768 * 7 * 11, 768, 768 * 7};
  for (std::size_t i = 0; i < level_count; ++i) EXPECT_EQ(m.step(static_cast<Level>(i)), steps[i]) << i;
  EXPECT_EQ(m.per_block(), 3840);
  EXPECT_EQ(m.covered(), covered);
  EXPECT_EQ(covered, 768 * 5 * 7 * 11);
}

TEST(AxisMapping, IsOneElementUnlessSaidOtherwise) {
  const AxisMapping m;
  for (std::size_t i = 0; i < level_count; ++i) EXPECT_EQ(m.at(static_cast<Level>(i)), 1);
  EXPECT_EQ(m.step(Level::grid), 1);
}

TEST(Schedule, EqualityIsOfEverything) {
  Schedule plain;
  plain.phases = {{GroupMapping{{AxisMapping{}}, 0, Hold::registers}}};
  for (const auto& change : std::vector<void (*)(Schedule&)>{
           [](Schedule& s) { s.tile_axes = {1}; },
           [](Schedule& s) {
             s.materialised = {graph::Value{3, 0}};
           },
           [](Schedule& s) { s.threads = 128; }, [](Schedule& s) { s.cluster = 2; }, [](Schedule& s) { s.blocks = 9; },
           [](Schedule& s) { s.rows = 2; }, [](Schedule& s) { s.syncs = {Sync::barrier}; },
           [](Schedule& s) { s.phases[0][0].hold = Hold::shared; }, [](Schedule& s) { s.phases[0][0].hoists = false; },
           [](Schedule& s) { s.phases[0][0].vector_axis = -1; },
           [](Schedule& s) { s.phases[0][0].axes[0].interleaved = true; },
           [](Schedule& s) { s.phases[0][0].axes[0].at(Level::grid) = 2; }}) {
    Schedule changed = plain;
    EXPECT_EQ(changed, plain);
    change(changed);
    EXPECT_NE(changed, plain);
  }
}

TEST(Schedule, NamesAreThoseOfTheDesign) {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < level_count; ++i) names.push_back(to_string(static_cast<Level>(i)));
  EXPECT_EQ(names, (std::vector<std::string_view>{"vector", "lane", "warp", "register", "loop", "cluster", "grid"}));
  EXPECT_EQ(to_string(Hold::registers), "registers");
  EXPECT_EQ(to_string(Hold::shared), "shared");
  EXPECT_EQ(to_string(Hold::reload), "reload");
  EXPECT_EQ(to_string(Hold::shared_least), "shared, least");
  EXPECT_EQ(to_string(Sync::last_block), "last-block");
  EXPECT_EQ(to_string(Sync::barrier), "barrier");
  EXPECT_EQ(to_string(Sync::block), "block");
  EXPECT_EQ(to_string(Sync::gate), "gate");
  EXPECT_EQ(to_string(Sync::open), "open");
}

}  // namespace
}  // namespace stitch::kernel
