// Tensor maps: their bytes, what is wrong with one, and tiles that go in and out of shared memory by them, against
// loops over the elements.
#include "emulator/tensor_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "tests/emulator/kernel_run.h"

namespace stitch::emulator {
namespace {

TensorMap matrix(std::uint64_t rows, std::uint64_t columns, std::uint32_t box_rows, std::uint32_t box_columns) {
  TensorMap map;
  map.rank = 2;
  map.address = 0x10000;
  map.sizes = {columns, rows, 1, 1, 1};
  map.strides = {4, columns * 4, 0, 0, 0};
  map.box = {box_columns, box_rows, 1, 1, 1};
  return map;
}

TEST(TensorMap, BytesHoldEveryField) {
  TensorMap map;
  map.type = TensorMapType::bf16;
  map.rank = 5;
  map.address = 0x123456789ABCDEF0;
  map.sizes = {std::uint64_t{1} << 32, 7, 1, 300, 2};
  map.strides = {2, 16, std::uint64_t{1} << 39, 48, 64};
  map.box = {256, 1, 2, 3, 4};
  map.element_strides = {1, 2, 3, 4, 8};
  map.interleave = 2;
  map.swizzle = TensorMapSwizzle::bytes_64;
  map.fills_nan = true;
  std::array<std::byte, TensorMap::bytes> bytes{};
  encode_tensor_map(map, bytes);
  EXPECT_EQ(decode_tensor_map(bytes), map);
}

TEST(TensorMap, SaysWhatIsWrong) {
  const struct {
    const char* message;
    void (*spoil)(TensorMap&);
  } cases[] = {
      {"6 dimensions, a tensor map has 1 to 5", [](TensorMap& map) { map.rank = 6; }},
      {"address 0x10004 is no multiple of 16", [](TensorMap& map) { map.address += 4; }},
      {"size 0 of dimension 1", [](TensorMap& map) { map.sizes[1] = 0; }},
      {"stride 40 of dimension 1 is no multiple of 16", [](TensorMap& map) { map.strides[1] = 40; }},
      {"box size 257 of dimension 0", [](TensorMap& map) { map.box[0] = 257; }},
      {"element stride 9 of dimension 1", [](TensorMap& map) { map.element_strides[1] = 9; }},
      {"a box row of 12 bytes is no multiple of 16", [](TensorMap& map) { map.box[0] = 3; }},
      {"a box row of 64 bytes is wider than its swizzle of 32",
       [](TensorMap& map) {
         map.box[0] = 16;
         map.swizzle = TensorMapSwizzle::bytes_32;
       }},
      {"interleaved", [](TensorMap& map) { map.interleave = 1; }},
      {"element type 99 is none", [](TensorMap& map) { map.type = static_cast<TensorMapType>(99); }},
  };
  EXPECT_TRUE(check(matrix(10, 20, 4, 8)).ok());
  for (const auto& wrong : cases) {
    TensorMap map = matrix(10, 20, 4, 8);
    wrong.spoil(map);
    const Status status = check(map);
    ASSERT_FALSE(status.ok()) << wrong.message;
    EXPECT_NE(status.error().message.find(wrong.message), std::string::npos) << status.error().message;
  }
}

/// One block of 32 threads loads a box at the coordinates in its parameters, copies shared memory word by word to
/// `seen`, and stores the box, or adds it, at the same coordinates of another tensor.
std::string tile_kernel(int rank, std::string_view store) {
  std::string parameters, coordinates;
  for (int d = 0; d < rank; ++d) {
    parameters += fmt::format(", .param .u32 c{}", d);
    coordinates += fmt::format("{}%c{}", d == 0 ? "" : ", ", d);
  }
  std::string loads;
  for (int d = 0; d < rank; ++d) loads += fmt::format("ld.param.u32 %c{}, [c{}];\n", d, d);
  return fmt::format(R"(.version 8.6
.target sm_90a
.address_size 64
.visible .entry tile(.param .align 64 .b8 from[128], .param .align 64 .b8 to[128], .param .u64 seen, .param .u32 bytes{0})
.reqntid 32
{{
  .reg .b32 %c<5>, %tile, %bar, %bytes, %tid, %at, %word;
  .reg .b64 %from, %to, %seen, %place;
  .reg .pred %first, %done, %more;
  .shared .align 1024 .b8 tile_bytes[16384];
  .shared .align 8 .b64 barrier;
  mov.b64 %from, from; cvta.param.u64 %from, %from;
  mov.b64 %to, to; cvta.param.u64 %to, %to;
  ld.param.u64 %seen, [seen]; ld.param.u32 %bytes, [bytes];
  {1}
  mov.u32 %tile, tile_bytes; mov.u32 %bar, barrier; mov.u32 %tid, %tid.x;
  setp.eq.u32 %first, %tid, 0;
  @%first mbarrier.init.shared::cta.b64 [%bar], 1;
  bar.sync 0;
  @%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], %bytes;
  @%first cp.async.bulk.tensor.{2}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%tile], [%from, {{{3}}}], [%bar];
wait:
  mbarrier.try_wait.parity.shared::cta.b64 %done, [%bar], 0;
  @!%done bra wait;
  shl.b32 %at, %tid, 2;
copy:
  setp.lt.u32 %more, %at, %bytes;
  @!%more bra stored;
  add.u32 %word, %tile, %at;
  ld.shared.u32 %word, [%word];
  cvt.u64.u32 %place, %at; add.u64 %place, %seen, %place;
  st.global.u32 [%place], %word;
  add.u32 %at, %at, 128;
  bra copy;
stored:
  bar.sync 0;
  @%first {4} [%to, {{{3}}}], [%tile];
  @%first cp.async.bulk.commit_group;
  @%first cp.async.bulk.wait_group 0;
  ret;
}}
)",
                     parameters, loads, rank, coordinates, store);
}

struct Tile {
  std::string name;
  int rank;
  std::array<std::uint64_t, 5> sizes;
  std::array<std::uint32_t, 5> box;
  std::array<std::int32_t, 5> corner;
  TensorMapSwizzle swizzle = TensorMapSwizzle::none;
  bool adds = false;
  bool fills_nan = false;
  std::array<std::uint32_t, 5> element_strides{1, 1, 1, 1, 1};
};
void PrintTo(const Tile& tile, std::ostream* out) { *out << tile.name; }

class TensorTile : public testing::TestWithParam<Tile> {
 protected:
  /// Element of the tensor at box element `index`, or nothing outside.
  static std::optional<std::uint64_t> element(const TensorMap& map, const Tile& tile, std::uint64_t index) {
    std::uint64_t at = 0, pitch = 1;
    for (std::uint32_t d = 0; d < map.rank; ++d) {
      const std::int64_t i = tile.corner[d] + std::int64_t(index % map.moved(d)) * map.element_strides[d];
      index /= map.moved(d);
      if (i < 0 || i >= std::int64_t(map.sizes[d])) return std::nullopt;
      at += i * pitch;
      pitch *= map.sizes[d];
    }
    return at;
  }
};

TEST_P(TensorTile, GoesInAndOut) {
  const Tile& tile = GetParam();
  TensorMap map;
  map.rank = tile.rank;
  map.sizes = tile.sizes;
  map.box = tile.box;
  map.element_strides = tile.element_strides;
  map.swizzle = tile.swizzle;
  map.fills_nan = tile.fills_nan;
  std::uint64_t count = 1;
  for (int d = 0; d < tile.rank; ++d) {
    map.strides[d] = count * 4;
    count *= map.sizes[d];
  }
  const std::uint32_t elements = map.box_bytes() / 4;
  Memory memory;
  const std::vector<float> from = test::noise(count, 1), before = test::noise(count, 2);
  const Buffer source = test::put(memory, "from", from), target = test::put(memory, "to", before);
  const Buffer seen = test::make(memory, "seen", map.box_bytes());
  ParameterBlock parameters;
  for (const Buffer& buffer : {source, target}) {
    map.address = buffer.address;
    std::array<std::byte, TensorMap::bytes> bytes{};
    encode_tensor_map(map, bytes);
    parameters.add_bytes(bytes, 64);
  }
  parameters.add(seen).add(static_cast<std::uint32_t>(map.box_bytes()));
  for (int d = 0; d < tile.rank; ++d) parameters.add(tile.corner[d]);
  const std::string store = fmt::format("cp.{}async.bulk.tensor.{}d.global.shared::cta.{}tile.bulk_group",
                                        tile.adds ? "reduce." : "", tile.rank, tile.adds ? "add." : "");
  const Result<Program> program = Program::load(tile_kernel(tile.rank, store));
  ASSERT_TRUE(program.ok()) << program.error().message;
  const LaunchReport report = test::run_clean(*program, test::shape(1, 32), parameters, memory);
  EXPECT_EQ(report.counters.bulk_copy_bytes, 2 * map.box_bytes());
  const auto shared = test::get<float>(memory, seen), after = test::get<float>(memory, target);
  std::vector<float> wanted = before;
  for (std::uint32_t i = 0; i < elements; ++i) {
    const auto at = element(map, tile, i);
    // 16-byte pieces of a row of the swizzle's width are exchanged by the number of the 128 bytes that they lie in.
    const std::uint32_t rows = (1U << static_cast<int>(tile.swizzle)) - 1, byte = i * 4;
    const float found = shared[(byte ^ ((byte >> 7 & rows) << 4)) / 4];
    if (!at) {
      EXPECT_EQ(std::isnan(found), tile.fills_nan) << i;
      if (!tile.fills_nan) {
        EXPECT_EQ(found, 0) << i;
      }
      continue;
    }
    ASSERT_EQ(found, from[*at]) << "element " << i << " of the box";
    wanted[*at] = tile.adds ? before[*at] + from[*at] : from[*at];
  }
  EXPECT_EQ(after, wanted);
}

const Tile tiles[] = {
    {"one_dimension", 1, {100}, {32}, {16}},
    {"beyond_the_end", 1, {100}, {32}, {80}},
    {"before_the_begin", 2, {20, 10}, {8, 4}, {-4, -1}},
    {"nan_outside", 2, {20, 10}, {8, 4}, {16, 8}, TensorMapSwizzle::none, false, true},
    {"far_outside", 2, {20, 10}, {8, 4}, {40, 0}},
    {"swizzle_32", 2, {32, 16}, {8, 16}, {8, 0}, TensorMapSwizzle::bytes_32},
    {"swizzle_64", 2, {32, 16}, {16, 16}, {16, 2}, TensorMapSwizzle::bytes_64},
    {"swizzle_128", 2, {64, 32}, {32, 16}, {16, 20}, TensorMapSwizzle::bytes_128},
    {"adds", 2, {32, 16}, {16, 8}, {20, 5}, TensorMapSwizzle::none, true},
    {"adds_swizzled", 2, {64, 16}, {32, 8}, {20, 5}, TensorMapSwizzle::bytes_128, true},
    {"three_dimensions", 3, {12, 7, 5}, {8, 3, 2}, {4, 5, 3}},
    {"four_dimensions", 4, {8, 5, 4, 3}, {4, 2, 3, 2}, {4, 1, 2, -1}},
    {"five_dimensions", 5, {8, 3, 4, 3, 2}, {8, 2, 2, 2, 2}, {0, 2, 1, 1, 1}},
    {"element_strides", 2, {40, 12}, {16, 6}, {-2, 1}, TensorMapSwizzle::none, false, false, {2, 3, 1, 1, 1}},
};
INSTANTIATE_TEST_SUITE_P(Tiles, TensorTile, testing::ValuesIn(tiles), [](const auto& tile) { return tile.param.name; });

TEST(TensorCopy, FindsMisuse) {
  const std::string store = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group";
  const struct {
    const char* message;
    Detector detector;
    void (*spoil)(TensorMap&);
  } cases[] = {
      {"a tensor copy of 2 dimensions with a map of 3", Detector::invalid_use, [](TensorMap& map) { map.rank = 3; }},
      {"tensor map: a box row of 12 bytes", Detector::invalid_use, [](TensorMap& map) { map.box[0] = 3; }},
      {"bulk read of 16 bytes at", Detector::out_of_bounds, [](TensorMap& map) { map.sizes[1] = 100; }},
  };
  for (const auto& wrong : cases) {
    Memory memory;
    const Buffer buffer = test::put(memory, "from", test::noise(64, 1));
    TensorMap map = matrix(8, 8, 8, 4);
    map.address = buffer.address;
    map.box[1] = 16;
    map.strides[2] = 256;
    wrong.spoil(map);
    std::array<std::byte, TensorMap::bytes> bytes{};
    encode_tensor_map(map, bytes);
    const Buffer seen = test::make(memory, "seen", 1024);
    const ParameterBlock parameters =
        ParameterBlock().add_bytes(bytes, 64).add_bytes(bytes, 64).add(seen).add(std::uint32_t{0}).add(0).add(0);
    const Result<Program> program = Program::load(tile_kernel(2, store));
    ASSERT_TRUE(program.ok()) << program.error().message;
    const LaunchReport report = test::run(*program, test::shape(1, 32), parameters, memory);
    const auto named = [&](const Finding& finding) {
      return finding.detector == wrong.detector && finding.message.find(wrong.message) != std::string::npos;
    };
    EXPECT_TRUE(std::ranges::any_of(report.findings, named)) << wrong.message << "\n" << test::findings_text(report);
  }
}

/// Two blocks of a cluster bring a box each, whose bytes the first one's barrier counts; behind it both show theirs.
std::string pair_kernel(const std::string& how) {
  return fmt::format(R"(.version 8.7
.target sm_100a
.address_size 64
.visible .entry pair(.param .align 64 .b8 from[128], .param .u64 seen)
.reqntid 32
{{
  .reg .b32 %tile, %bar, %first_bar, %tid, %rank, %row, %at, %word;
  .reg .b64 %from, %seen, %place;
  .reg .pred %first, %waits, %done;
  .shared .align 128 .b8 tile_bytes[128];
  .shared .align 8 .b64 barrier;
  mov.b64 %from, from; cvta.param.u64 %from, %from;
  ld.param.u64 %seen, [seen];
  mov.u32 %tile, tile_bytes; mov.u32 %bar, barrier; mov.u32 %tid, %tid.x; mov.u32 %rank, %cluster_ctarank;
  setp.eq.u32 %first, %tid, 0; setp.eq.u32 %waits, %rank, 0;
  @%first mbarrier.init.shared::cta.b64 [%bar], 1;
  fence.mbarrier_init.release.cluster;
  barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
  mapa.shared::cluster.u32 %first_bar, %bar, 0;
  shl.b32 %row, %rank, 2;
  @%first cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes{} [%tile], [%from, {{0, %row}}], [%first_bar];
  @!%waits bra there;
  @%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 256;
wait:
  mbarrier.try_wait.parity.shared::cta.b64 %done, [%bar], 0;
  @!%done bra wait;
there:
  barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
  shl.b32 %at, %tid, 2; add.u32 %word, %tile, %at;
  ld.shared.u32 %word, [%word];
  shl.b32 %rank, %rank, 7; add.u32 %at, %at, %rank;
  cvt.u64.u32 %place, %at; add.u64 %place, %seen, %place;
  st.global.u32 [%place], %word;
  ret;
}}
)",
                     how);
}

TEST(TensorCopy, OfAPairTellsTheBarrierOfEitherBlock) {
  const std::vector<float> values = test::noise(64, 3);
  const auto run = [&](const std::string& how, std::vector<float>* seen) {
    Memory memory;
    TensorMap map = matrix(8, 8, 4, 8);
    map.address = test::put(memory, "from", values).address;
    std::array<std::byte, TensorMap::bytes> bytes{};
    encode_tensor_map(map, bytes);
    const Buffer out = test::make(memory, "seen", 256);
    const Result<Program> program = Program::load(pair_kernel(how));
    EXPECT_TRUE(program.ok()) << program.error().message;
    LaunchConfig config = test::shape(2, 32);
    config.cluster.x = 2;
    const LaunchReport report = test::run(*program, config, ParameterBlock().add_bytes(bytes, 64).add(out), memory);
    if (seen != nullptr) *seen = test::get<float>(memory, out);
    return test::findings_text(report);
  };
  std::vector<float> seen;
  EXPECT_EQ(run(".cta_group::2", &seen), "");
  EXPECT_EQ(seen, values);
  EXPECT_NE(run("", nullptr).find("a copy to block 1 of the cluster whose mbarrier is block 0's"), std::string::npos);
  EXPECT_NE(run(".cta_group::1", nullptr).find("whose mbarrier is block 0's"), std::string::npos);
}

TEST(TensorCopy, UnknownFormsAreNamed) {
  const auto message_of = [](const std::string& store) {
    const Result<Program> program = Program::load(tile_kernel(2, store));
    return program ? std::string() : program.error().message;
  };
  EXPECT_NE(message_of("cp.async.bulk.tensor.2d.global.shared::cta.im2col_no_offs.bulk_group").find("im2col_no_offs"),
            std::string::npos);
  EXPECT_NE(message_of("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group")
                .find("2 coordinates of a tensor of 3 dimensions"),
            std::string::npos);
  EXPECT_NE(message_of("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group.cta_group::2")
                .find("copies from shared memory have no .cta_group"),
            std::string::npos);
}

}  // namespace
}  // namespace stitch::emulator
