#include "kernel/attention/chain_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/kernel/chain_graph.h"

namespace stitch::kernel {
namespace {

using graph::DType;
using test::chain_graph;
using test::ChainCase;
using Kind = ChainCase::Kind;
using testing::HasSubstr;

const DeviceSpec h100 = *find_device("h100");

ProductChain chain_of(const ChainCase& each) { return *derive_chain(chain_graph(each)); }

TEST(ChainSchedule, HasAShape) {
  const ProductChain chain = chain_of({"", Kind::keys_and_values, {3}, 200, 100, 64, 32, DType::bf16});
  ChainSchedule s{ContractionInstruction::mma_m16n8k16, 64, 32, 16, 3, 2};
  const ChainShape shape = shape_of(chain, s);
  EXPECT_EQ(shape.warps, 4);
  EXPECT_EQ(shape.row_tiles, 2);
  EXPECT_EQ(shape.column_tiles, 7);
  EXPECT_EQ(shape.blocks, 6);
  EXPECT_THAT(shape.row_bytes, testing::ElementsAre(64 * 64 * 2, 64 * 32 * 2));
  EXPECT_THAT(shape.walked_bytes, testing::ElementsAre(32 * 64 * 2, 32 * 32 * 2));
  EXPECT_THAT(shape.other_bytes, testing::ElementsAre(0, 0)) << "scores' operands serve";
  EXPECT_EQ(shape.weight_bytes, 0);
  EXPECT_EQ(shape.shared_bytes, 64 * 96 * 2 + 3 * 32 * 96 * 2);
  EXPECT_EQ(to_string(s), "mma_m16n8k16 rows 64 columns 32 warp 16 stages 3 blocks 2");
}

TEST(ChainSchedule, RulesSayWhatIsViolated) {
  const ProductChain chain = chain_of({"", Kind::queries, {2}, 128, 128, 64, 64, DType::f16});
  const ChainSchedule sound = *default_schedule(chain, h100);
  EXPECT_TRUE(check_legality(chain, sound, h100));
  const auto violation = [&](auto change, const ProductChain& of) {
    ChainSchedule s = sound;
    change(s);
    const Status legal = check_legality(of, s, h100);
    return legal ? "" : legal.error().message;
  };
  EXPECT_THAT(violation([](ChainSchedule& s) { s.block_rows = 48; }, chain), HasSubstr("tiles of 48"));
  EXPECT_THAT(violation([](ChainSchedule& s) { s.warp_rows = 128; }, chain), HasSubstr("warps of 128"));
  EXPECT_THAT(violation([](ChainSchedule& s) { s.stages = 9; }, chain), HasSubstr("9 stages"));
  EXPECT_THAT(violation([](ChainSchedule& s) { s.blocks_per_sm = 32; }, chain), HasSubstr("32 blocks"));
  EXPECT_THAT(violation(
                  [](ChainSchedule& s) {
                    s.block_columns = 128;
                    s.warp_rows = 32;
                    s.stages = 1;
                  },
                  chain),
              HasSubstr("registers"));
  EXPECT_THAT(violation([](ChainSchedule& s) { s.instruction = ContractionInstruction::wgmma_m64k32; }, chain),
              HasSubstr("does not multiply"));
  EXPECT_TRUE(check_legality(chain, {ContractionInstruction::wgmma_m64k16, 128, 64, 16, 2, 1}, h100));
  EXPECT_THAT(violation([](ChainSchedule& s) { s = {ContractionInstruction::wgmma_m64k16, 128, 64, 32, 2, 1}; }, chain),
              HasSubstr("128 rows of wgmma, 32 of a warp"));
  EXPECT_THAT(violation([](ChainSchedule& s) { s = {ContractionInstruction::wgmma_m64k16, 64, 64, 16, 1, 1}; }, chain),
              HasSubstr("1 stage"));
  EXPECT_THAT(violation([](ChainSchedule& s) { s.instruction = ContractionInstruction::mma_m16n8k32; }, chain),
              HasSubstr("does not multiply"));
  const ProductChain narrow = chain_of({"", Kind::queries, {2}, 128, 128, 32, 64, DType::f16});
  EXPECT_THAT(violation([](ChainSchedule& s) { s = {ContractionInstruction::wgmma_m64k16, 64, 64, 16, 2, 1}; }, narrow),
              HasSubstr("a depth of 32, of which both products take a tile"));
  const ProductChain deep = chain_of({"", Kind::queries, {2}, 128, 128, 512, 64, DType::f16});
  EXPECT_THAT(violation([](ChainSchedule&) {}, deep), HasSubstr("a depth of 512"));
}

/// What is walked is what the mask leaves, from either side; every visible pair is in a walked tile.
TEST(ChainSchedule, WalksWhatIsVisible) {
  for (const Kind kind : {Kind::queries, Kind::keys_and_values}) {
    for (const auto& [rows, keys] : {std::pair{256, 256}, std::pair{200, 200}, std::pair{128, 256}}) {
      const ProductChain chain = chain_of({"", kind, {1}, rows, keys, 32, 32, DType::f16, true});
      ChainSchedule s = *default_schedule(chain, h100);
      s.block_rows = 64;
      s.block_columns = 32;
      const KeyWalk walk = chain_walk(chain, s);
      const ChainShape shape = shape_of(chain, s);
      std::int64_t walked_tiles = 0;
      for (std::int64_t t = 0; t < shape.row_tiles; ++t) {
        const KeyTiles walked = tiles_of(walk, t, s, shape.column_tiles);
        walked_tiles += walked.last - walked.first;
        for (std::int64_t row = t * 64; row < std::min<std::int64_t>(chain.rows(), t * 64 + 64); ++row) {
          for (std::int64_t column = 0; column < chain.columns(); ++column) {
            const bool visible = kind == Kind::queries ? row >= column : column >= row;
            const bool walks = column / 32 >= walked.first && column / 32 < walked.last;
            EXPECT_TRUE(walks || !visible) << row << " " << column;
          }
        }
      }
      const std::int64_t most = rows == keys ? 75 : 100;
      EXPECT_LE(walked_tiles * 100, most * shape.row_tiles * shape.column_tiles);
    }
  }
}

}  // namespace
}  // namespace stitch::kernel
