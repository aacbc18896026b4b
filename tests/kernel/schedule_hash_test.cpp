#include "kernel/program/schedule_hash.h"

#include <gtest/gtest.h>

#include <set>

namespace stitch::kernel {
namespace {

Schedule plain() {
  Schedule schedule;
  schedule.phases = {{GroupMapping{{AxisMapping{}, AxisMapping{}}, 0, Hold::registers}}};
  return schedule;
}

TEST(ScheduleHash, IsOfEverything) {
  std::set<Hash128> hashes = {schedule_hash(plain())};
  std::size_t expected = 1;
  for (const auto& change :
       std::vector<void (*)(Schedule&)>{[](Schedule& s) { s.tile_axes = {1}; },
                                        [](Schedule& s) {
                                          s.tile_axes = {0, 1};
                                        },
                                        [](Schedule& s) {
                                          s.materialised.insert(graph::Value{3, 0});
                                        },
                                        [](Schedule& s) {
                                          s.materialised.insert(graph::Value{3, 1});
                                        },
                                        [](Schedule& s) { s.threads = 128; },
                                        [](Schedule& s) { s.cluster = 2; },
                                        [](Schedule& s) { s.blocks = 9; },
                                        [](Schedule& s) { s.syncs = {Sync::barrier}; },
                                        [](Schedule& s) { s.syncs = {Sync::last_block}; },
                                        [](Schedule& s) { s.syncs = {Sync::block}; },
                                        [](Schedule& s) { s.rows = 2; },
                                        [](Schedule& s) { s.syncs = {Sync::gate}; },
                                        [](Schedule& s) { s.syncs = {Sync::open}; },
                                        [](Schedule& s) { s.gathered = 8; },
                                        [](Schedule& s) { s.retained = 8; },
                                        [](Schedule& s) {
                                          s.slabs = {{0, 0}, 1, 8};
                                        },
                                        [](Schedule& s) {
                                          s.slabs = {{0, 0}, 0, 8};
                                        },
                                        [](Schedule& s) {
                                          s.slabs = {{2, 0}, 1, 8};
                                        },
                                        [](Schedule& s) {
                                          s.slabs = {{0, 0}, 1, 4};
                                        },
                                        [](Schedule& s) { s.phases[0][0].shifted = true; },
                                        [](Schedule& s) { s.phases[0][0].hoists = false; },
                                        [](Schedule& s) { s.phases[0][0].stages = 2; },
                                        [](Schedule& s) { s.phases[0][0].stages = 3; },
                                        [](Schedule& s) {
                                          s.phases[0][0].stages = 3;
                                          s.phases[0][0].shared_stages = true;
                                        },
                                        [](Schedule& s) {
                                          s.phases[0][0].stages = 3;
                                          s.phases[0][0].shared_stages = s.phases[0][0].bulk_stages = true;
                                        },
                                        [](Schedule& s) { s.phases.push_back(s.phases[0]); },
                                        [](Schedule& s) { s.phases[0].push_back(s.phases[0][0]); },
                                        [](Schedule& s) { s.phases[0][0].hold = Hold::shared; },
                                        [](Schedule& s) { s.phases[0][0].vector_axis = -1; },
                                        [](Schedule& s) { s.phases[0][0].axes[0].at(Level::grid) = 2; },
                                        [](Schedule& s) { s.phases[0][0].axes[1].at(Level::grid) = 2; },
                                        [](Schedule& s) { s.phases[0][0].axes[0].at(Level::lane) = 2; },
                                        [](Schedule& s) { s.phases[0][0].axes[0].interleaved = true; },
                                        [](Schedule& s) { s.phases[0][0].axes[1].interleaved = true; },
                                        [](Schedule& s) { s.phases[0][0].axes.pop_back(); }}) {
    Schedule changed = plain();
    change(changed);
    hashes.insert(schedule_hash(changed));
    EXPECT_EQ(hashes.size(), ++expected);
  }
  EXPECT_EQ(schedule_hash(plain()), schedule_hash(plain()));
}

TEST(ScheduleHash, StaysWhatItIs) {
  // Recordings are looked up by it.
  Schedule schedule = plain();
  schedule.tile_axes = {1};
  schedule.phases[0][0].axes[0].at(Level::lane) = 32;
  EXPECT_EQ(schedule_hash(schedule).hex(), "dbb1f88b91a8fa60919d0d49286a5e18");
}

}  // namespace
}  // namespace stitch::kernel
