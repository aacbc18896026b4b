#include <gtest/gtest.h>

#include "kernel/pipeline/applicability.h"
#include "kernel/pipeline/multi_buffering.h"
#include "kernel/pipeline/pipelining.h"
#include "kernel/pipeline/prologue.h"
#include "kernel/pipeline/rotation.h"
#include "kernel/pipeline/simulation.h"
#include "kernel/pipeline/waits.h"

namespace stitch::kernel::pipeline::test {
namespace {

using Kind = TileStatement::Kind;

constexpr int left = 0, right = 1, left_tile = 2, right_tile = 3, left_part = 4, right_part = 5;

TileStatement copy(int to, int from, Index tile, Index outer) {
  TileStatement s;
  s.kind = Kind::copy;
  s.to = {to, tile, 0};
  s.from = {from, outer, 0};
  return s;
}

/// A matmul of `turns` tiles of `steps` steps.
TileNest matmul_nest(std::int64_t turns, std::int64_t steps) {
  TileNest nest;
  for (const char* name : {"left", "right"}) nest.add_buffer(name, Scope::device);
  for (const char* name : {"left_tile", "right_tile"}) nest.add_buffer(name, Scope::shared);
  for (const char* name : {"left_part", "right_part"}) nest.add_buffer(name, Scope::registers);
  const int outer = nest.add_loop("k", turns), inner = nest.add_loop("step", steps, true);
  const Index k = nest.loops[outer].variable;
  const Index g = nest.pool.add(nest.pool.scale(k, steps), nest.loops[inner].variable);
  const Index zero = nest.pool.constant(0);
  TileStatement compute;
  compute.name = "multiply";
  compute.reads = {{left_part, g, zero}, {right_part, g, zero}};
  TileStatement in;
  in.kind = Kind::loop;
  in.loop = inner;
  in.body = {copy(left_part, left_tile, g, k), copy(right_part, right_tile, g, k), compute};
  TileStatement out;
  out.kind = Kind::loop;
  out.loop = outer;
  out.body = {copy(left_tile, left, k, k), copy(right_tile, right, k, k), in};
  for (std::vector<TileStatement>* body : {&out.body, &out.body[2].body}) {
    for (TileStatement& each : *body) each.to.stage = each.from.stage = zero;
  }
  nest.body = {out};
  return nest;
}

std::vector<int> stages(int shared, int registers) { return {1, 1, shared, shared, registers, registers}; }

TileNest matmul_pipelined(std::int64_t turns, std::int64_t steps, int shared, int registers) {
  auto nest = pipelined(matmul_nest(turns, steps), stages(shared, registers));
  EXPECT_TRUE(nest) << nest.error().message;
  return nest ? *nest : TileNest{};
}

TEST(Pipeline, OfSeveralStagesAtBothLevels) {
  EXPECT_EQ(to_string(matmul_pipelined(24, 4, 3, 2)),
            R"(copy left_tile[0] <- left 0
copy right_tile[0] <- right 0
commit
copy left_tile[1] <- left 1
copy right_tile[1] <- right 1
commit
wait 1
copy left_part[0] <- left_tile[0] 0
copy right_part[0] <- right_tile[0] 0
for k in 0..24
  if k + 2 < 24: copy left_tile[(k + 2) % 3] <- left k + 2
  if k + 2 < 24: copy right_tile[(k + 2) % 3] <- right k + 2
  commit
  for step in 0..4 unrolled
    if step == 3: wait 1
    if 4 * k + step + 1 < 96: copy left_part[(step + 1) % 2] <- left_tile[(k + (step + 1) / 4) % 3] 4 * k + step + 1
    if 4 * k + step + 1 < 96: copy right_part[(step + 1) % 2] <- right_tile[(k + (step + 1) / 4) % 3] 4 * k + step + 1
    compute multiply left_part[(step) % 2] right_part[(step) % 2]
)");
}

TEST(Pipeline, OfSharedMemoryAlone) {
  EXPECT_EQ(to_string(matmul_pipelined(8, 2, 2, 1)),
            R"(copy left_tile[0] <- left 0
copy right_tile[0] <- right 0
commit
for k in 0..8
  wait 0
  if k + 1 < 8: copy left_tile[(k + 1) % 2] <- left k + 1
  if k + 1 < 8: copy right_tile[(k + 1) % 2] <- right k + 1
  commit
  for step in 0..2 unrolled
    copy left_part[0] <- left_tile[(k) % 2] 2 * k + step
    copy right_part[0] <- right_tile[(k) % 2] 2 * k + step
    compute multiply left_part[0] right_part[0]
)");
}

TEST(Pipeline, OfRegistersAloneStaysWithinItsTile) {
  EXPECT_EQ(to_string(matmul_pipelined(8, 4, 1, 2)),
            R"(for k in 0..8
  acquire
  copy left_tile[0] <- left k
  copy right_tile[0] <- right k
  commit
  wait 0
  copy left_part[0] <- left_tile[0] 4 * k
  copy right_part[0] <- right_tile[0] 4 * k
  for step in 0..4 unrolled
    if step + 1 < 4: copy left_part[(step + 1) % 2] <- left_tile[0] 4 * k + step + 1
    if step + 1 < 4: copy right_part[(step + 1) % 2] <- right_tile[0] 4 * k + step + 1
    compute multiply left_part[(step) % 2] right_part[(step) % 2]
)");
}

/// What the guards of copies into a buffer count for each turn, in the order of the statements.
void collect_guards(const std::vector<TileStatement>& body, int buffer, std::vector<std::int64_t>& per_turn) {
  for (const TileStatement& each : body) {
    if (each.kind == Kind::copy && each.to.buffer == buffer) {
      for (const TileGuard& guard : each.guards) per_turn.push_back(guard.per_turn);
    }
    collect_guards(each.body, buffer, per_turn);
  }
}

// Who knows its turns only when a kernel runs reads it there: bounds may be equal and count another thing.
TEST(Pipeline, GuardsSayWhatTheyCountOfATurn) {
  const auto counted = [](const TileNest& nest, int buffer) {
    std::vector<std::int64_t> per_turn;
    collect_guards(nest.body, buffer, per_turn);
    return per_turn;
  };
  const TileNest carried = matmul_pipelined(4, 4, 3, 2);
  EXPECT_EQ(counted(carried, left_tile), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(counted(carried, left_part), (std::vector<std::int64_t>{4}));
  EXPECT_EQ(counted(matmul_pipelined(1, 4, 1, 2), left_part), (std::vector<std::int64_t>{0}));
  EXPECT_EQ(counted(matmul_pipelined(4, 4, 1, 2), left_part), (std::vector<std::int64_t>{0}));
}

TEST(Pipeline, OfAnyShapeComputesEveryTileOnce) {
  for (std::int64_t turns = 1; turns <= 9; ++turns) {
    for (const std::int64_t steps : {1, 2, 3, 4, 8}) {
      for (int shared = 1; shared <= std::min<std::int64_t>(5, turns); ++shared) {
        for (int registers = 1; registers <= std::min<std::int64_t>(3, steps); ++registers) {
          const TileNest nest = matmul_pipelined(turns, steps, shared, registers);
          const auto done = simulate(nest);
          ASSERT_TRUE(done) << done.error().message << "\n" << to_string(nest);
          EXPECT_EQ(done->computed, turns * steps);
          EXPECT_EQ(done->copied, 2 * turns * (1 + steps)) << to_string(nest);
          EXPECT_LE(done->ahead, std::max(0, shared - 1));
          if (turns >= shared && shared > 1) {
            EXPECT_EQ(done->ahead, shared - 1) << to_string(nest);
          }
        }
      }
    }
  }
}

/// Takes out the `number`th statement of a kind; false when there is none.
bool take_out(std::vector<TileStatement>& body, Kind kind, int& number) {
  for (std::size_t i = 0; i < body.size(); ++i) {
    if (body[i].kind == kind && number-- == 0) {
      body.erase(body.begin() + static_cast<std::ptrdiff_t>(i));
      return true;
    }
    if (take_out(body[i].body, kind, number)) return true;
  }
  return false;
}

TEST(Pipeline, WithoutOneOfItsStatementsIsFoundWrong) {
  for (const auto& [shared, registers] : {std::pair(3, 2), {2, 2}, {4, 1}, {2, 1}, {1, 2}, {1, 1}}) {
    for (const Kind kind : {Kind::copy, Kind::wait, Kind::acquire, Kind::commit}) {
      for (int number = 0;; ++number) {
        TileNest nest = matmul_pipelined(8, 4, shared, registers);
        int left_over = number;
        if (!take_out(nest.body, kind, left_over)) break;
        EXPECT_FALSE(simulate(nest)) << "without " << number << " of kind " << static_cast<int>(kind) << "\n"
                                     << to_string(nest);
      }
    }
  }
}

TEST(Pipeline, WithAPassLeftOutIsFoundWrong) {
  const auto after = [](auto... passes) {
    TileNest nest = matmul_nest(8, 4);
    EXPECT_TRUE(give_stages(nest, stages(3, 2)));
    (passes(nest), ...);
    return simulate(nest);
  };
  EXPECT_TRUE(after(rotate, hoist_prologues, place_waits));
  EXPECT_FALSE(after(hoist_prologues, place_waits));
  EXPECT_FALSE(after(rotate, place_waits));
  const auto unwaited = after(rotate, hoist_prologues);
  ASSERT_FALSE(unwaited);
  EXPECT_EQ(unwaited.error().message, "tile 0 of left_tile is read before it is waited for");
}

/// What place_waits promises depends on how many groups may be under way.
void wait_for_fewer(std::vector<TileStatement>& body, int less) {
  for (TileStatement& s : body) {
    if (s.kind == Kind::wait) s.pending += less;
    wait_for_fewer(s.body, less);
  }
}

TEST(Pipeline, ThatWaitsForTooFewGroupsIsFoundWrong) {
  TileNest nest = matmul_pipelined(8, 4, 3, 2);
  wait_for_fewer(nest.body, 1);
  const auto done = simulate(nest);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message, "tile 0 of left_tile is read before it is waited for");
}

/// The same of a left operand that threads compute on its way to shared memory.
TileNest staged_pipelined(std::int64_t turns, std::int64_t steps, int shared, int registers, bool both = false) {
  TileNest nest = matmul_nest(turns, steps);
  for (int side = 0; side < (both ? 2 : 1); ++side)
    nest.body[0].body[side].staged = nest.body[0].body[side].changes = true;
  auto made = pipelined(std::move(nest), stages(shared, registers));
  EXPECT_TRUE(made) << made.error().message;
  return made ? *made : TileNest{};
}

TEST(PipelineStaging, StoresBehindTheUse) {
  EXPECT_EQ(to_string(staged_pipelined(8, 2, 2, 1)),
            R"(copy left_tile[0] <- left 0
copy right_tile[0] <- right 0
commit
for k in 0..8
  wait 0
  if k + 1 < 8: load left_tile k + 1
  if k + 1 < 8: copy right_tile[(k + 1) % 2] <- right k + 1
  commit
  for step in 0..2 unrolled
    copy left_part[0] <- left_tile[(k) % 2] 2 * k + step
    copy right_part[0] <- right_tile[(k) % 2] 2 * k + step
    compute multiply left_part[0] right_part[0]
  if k + 1 < 8: store left_tile[(k + 1) % 2] k + 1
)");
}

/// Where the next tile is waited for within the use of this one, it must be there by then.
TEST(PipelineStaging, StoresBeforeTheWaitWithin) {
  EXPECT_EQ(to_string(staged_pipelined(24, 4, 2, 2)),
            R"(copy left_tile[0] <- left 0
copy right_tile[0] <- right 0
commit
wait 0
copy left_part[0] <- left_tile[0] 0
copy right_part[0] <- right_tile[0] 0
for k in 0..24
  if k + 1 < 24: load left_tile k + 1
  if k + 1 < 24: copy right_tile[(k + 1) % 2] <- right k + 1
  commit
  for step in 0..4 unrolled
    if k + 1 < 24: if step == 3: store left_tile[(k + 1) % 2] k + 1
    if step == 3: wait 0
    if 4 * k + step + 1 < 96: copy left_part[(step + 1) % 2] <- left_tile[(k + (step + 1) / 4) % 2] 4 * k + step + 1
    if 4 * k + step + 1 < 96: copy right_part[(step + 1) % 2] <- right_tile[(k + (step + 1) / 4) % 2] 4 * k + step + 1
    compute multiply left_part[(step) % 2] right_part[(step) % 2]
)");
}

TEST(PipelineStaging, OfAnyShapeComputesEveryTileOnce) {
  for (std::int64_t turns = 1; turns <= 6; ++turns) {
    for (const std::int64_t steps : {1, 2, 4}) {
      for (int shared = 1; shared <= std::min<std::int64_t>(5, turns); ++shared) {
        for (int registers = 1; registers <= std::min<std::int64_t>(2, steps); ++registers) {
          for (const bool both : {false, true}) {
            const TileNest nest = staged_pipelined(turns, steps, shared, registers, both);
            const auto done = simulate(nest);
            ASSERT_TRUE(done) << done.error().message << "\n" << to_string(nest);
            EXPECT_EQ(done->computed, turns * steps);
            EXPECT_EQ(done->copied, 2 * turns * (1 + steps)) << to_string(nest);
          }
        }
      }
    }
  }
}

TEST(PipelineStaging, WithoutOneOfItsStatementsIsFoundWrong) {
  for (const auto& [shared, registers] : {std::pair(3, 2), {2, 2}, {4, 1}, {2, 1}, {1, 2}, {1, 1}}) {
    for (const Kind kind : {Kind::copy, Kind::wait, Kind::acquire}) {
      for (int number = 0;; ++number) {
        TileNest nest = staged_pipelined(8, 4, shared, registers, true);
        int left_over = number;
        if (!take_out(nest.body, kind, left_over)) break;
        EXPECT_FALSE(simulate(nest)) << "without " << number << " of kind " << static_cast<int>(kind) << "\n"
                                     << to_string(nest);
      }
    }
  }
}

std::string obstacle_of(const TileNest& nest, int buffer) {
  for (const Applicability& each : applicability(nest)) {
    if (each.buffer == buffer) return each.obstacle;
  }
  return "none of it";
}

TEST(PipelineApplicability, SaysWhatIsInTheWay) {
  TileNest nest = matmul_nest(8, 4);
  EXPECT_EQ(obstacle_of(nest, left_tile), "");
  EXPECT_EQ(obstacle_of(nest, left_part), "");
  nest.body[0].body[0].changes = true;
  EXPECT_EQ(obstacle_of(nest, left_tile), "arithmetic between load and store");
  EXPECT_EQ(obstacle_of(nest, right_tile), "waited for together with left_tile");
  nest = matmul_nest(8, 4);
  nest.body[0].body[1].waits = true;
  EXPECT_EQ(obstacle_of(nest, right_tile), "filled through registers, not asynchronously");
  nest.body[0].body[1].changes = nest.body[0].body[1].staged = true;
  EXPECT_EQ(obstacle_of(nest, right_tile), "") << "registers hold a tile meanwhile";
  nest = matmul_nest(8, 4);
  nest.body[0].body[0].to.tile = nest.pool.constant(0);
  EXPECT_EQ(obstacle_of(nest, left_tile), "the same tile in every turn of k");
  nest = matmul_nest(8, 4);
  nest.body[0].body.push_back(nest.body[0].body[0]);
  EXPECT_EQ(obstacle_of(nest, left_tile), "filled by 2 copies");
  nest = matmul_nest(8, 4);
  nest.body[0].body[2].body[0].from.buffer = right_tile;
  EXPECT_EQ(obstacle_of(nest, left_tile), "not used in the turn that fills it");
}

TEST(PipelineMultiBuffering, RefusesWhatDoesNotApply) {
  const auto refused = [](const std::vector<int>& wanted, bool changes = false) {
    TileNest nest = matmul_nest(4, 2);
    nest.body[0].body[0].changes = changes;
    const Status given = give_stages(nest, wanted);
    return given ? std::string("nothing") : given.error().message;
  };
  EXPECT_EQ(refused(stages(4, 2)), "nothing");
  EXPECT_EQ(refused(stages(5, 1)), "5 stages of left_tile, whose loop has 4 turns");
  EXPECT_EQ(refused(stages(1, 3)), "3 stages of left_part, whose loop has 2 turns");
  EXPECT_EQ(refused({1, 1, 2, 3, 1, 1}), "right_tile has 3 stages, other shared buffers 2");
  EXPECT_EQ(refused(stages(2, 1), true), "left_tile: arithmetic between load and store");
}

}  // namespace
}  // namespace stitch::kernel::pipeline::test
