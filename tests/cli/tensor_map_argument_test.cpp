#include "cli/emulate/tensor_map_argument.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>

#include "cli/emulate/kernel_case.h"

namespace stitch::cli {
namespace {

using testing::HasSubstr;

TEST(TensorMapArgument, SaysWhatCuTensorMapEncodeTiledIsGiven) {
  const auto parsed = parse_tensor_map(
      "bf16[64,128,3]:at=x+32:box=32,8,1:strides=256,65536:element_strides=1,2,1:"
      "swizzle=64:fill=nan");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed->base, "x");
  EXPECT_EQ(parsed->offset, 32U);
  emulator::TensorMap wanted;
  wanted.type = emulator::TensorMapType::bf16;
  wanted.rank = 3;
  wanted.sizes = {64, 128, 3, 1, 1};
  wanted.strides = {2, 256, 65536, 0, 0};
  wanted.box = {32, 8, 1, 1, 1};
  wanted.element_strides = {1, 2, 1, 1, 1};
  wanted.swizzle = emulator::TensorMapSwizzle::bytes_64;
  wanted.fills_nan = true;
  EXPECT_EQ(*parsed->map, wanted);
}

TEST(TensorMapArgument, StridesAreADenseTensorsByDefault) {
  const auto parsed = parse_tensor_map("f32[8,6,5]:at=0:box=8,2,1");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed->map->strides, (std::array<std::uint64_t, 5>{4, 32, 192, 0, 0}));
}

struct Refused {
  const char* text;
  const char* why;
};
void PrintTo(const Refused& refused, std::ostream* out) { *out << refused.text; }

class TensorMapArgumentRefused : public testing::TestWithParam<Refused> {};

TEST_P(TensorMapArgumentRefused, NamesWhatIsWrong) {
  const auto parsed = parse_tensor_map(GetParam().text);
  ASSERT_FALSE(parsed.ok());
  EXPECT_THAT(parsed.error().message, HasSubstr(GetParam().why));
}

INSTANTIATE_TEST_SUITE_P(Texts, TensorMapArgumentRefused,
                         testing::Values(Refused{"half[8]:at=x:box=8", "'half' is no tensor map's type"},
                                         Refused{"f32[8,8,8,8,8,8]:at=x", "6 dimensions"},
                                         Refused{"f32[8,x]:at=x", "'x' is no whole number"},
                                         Refused{"f32[8,8]:at=x:box=8", "box has 1 numbers, 2 are wanted"},
                                         Refused{"f32[8,8]:box=8,8", "needs at=NAME"},
                                         Refused{"f32[8,8]:at=x:box=8,300", "box size 300"},
                                         Refused{"f32[8,8]:at=x:box=8,8:swizzle=16", "'swizzle=16'"},
                                         Refused{"f32[7,8]:at=x:box=4,8", "stride 28"},
                                         Refused{"f32[8,8]:at=x+y:box=8,8", "'y'"}));

// A tile of 8 × 4 words, from column 8 and row 2 on, into shared memory by a tensor map that is a kernel parameter, or
// that lies 64 bytes into one.
std::string tile_kernel(bool inside) {
  std::string text = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry tile(.param .align 64 .b8 map[SIZE], .param .u64 out, .param .u64 in) {
  .reg .b64 %m, %o, %w; .reg .b32 %t, %d, %b, %x; .reg .pred %p;
  .shared .align 128 .b8 box[128]; .shared .align 8 .b8 barrier[8];
  mov.b64 %m, map; cvta.param.u64 %m, %m; add.u64 %m, %m, AT;
  ld.param.u64 %o, [out]; mov.u32 %t, %tid.x; mov.u32 %d, box; mov.u32 %b, barrier;
  setp.ne.u32 %p, %t, 0; @%p bra ready;
  mbarrier.init.shared.b64 [%b], 1;
  fence.mbarrier_init.release.cluster;
  mbarrier.arrive.expect_tx.shared.b64 %w, [%b], 128;
  mov.u32 %x, 8; mov.u32 %t, 2;
  cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%d], [%m, {%x, %t}], [%b];
  mov.u32 %t, 0;
ready:
  bar.sync 0;
wait:
  mbarrier.try_wait.parity.shared.b64 %p, [%b], 0;
  @!%p bra wait;
  shl.b32 %t, %t, 2; add.u32 %d, %d, %t; ld.shared.u32 %x, [%d];
  cvt.u64.u32 %w, %t; add.u64 %o, %o, %w; st.global.u32 [%o], %x;
  ret;
})";
  const auto put = [&](const std::string& name, const std::string& value) {
    text.replace(text.find(name), name.size(), value);
  };
  put("SIZE", inside ? "192" : "128");
  put("AT", inside ? "64" : "0");
  return text;
}

Result<ExecutedKernel> executed_tile(const std::string& map, bool inside) {
  const RealFileSystem files;
  KernelCase kernel;
  kernel.name = "tile";
  kernel.ptx = tile_kernel(inside);
  kernel.config.block.x = 32;
  for (const std::string& text :
       {map, std::string("out:u32[32]"), std::string("in=random:u32[256]:seed=1:low=0:high=999")}) {
    auto argument = parse_argument(text, kernel.arguments.size(), files);
    if (!argument) return argument.error();
    kernel.arguments.push_back(std::move(*argument));
  }
  return execute(kernel);
}

void expect_tile(const Result<ExecutedKernel>& executed) {
  ASSERT_TRUE(executed.ok()) << executed.error().message;
  for (const emulator::Finding& finding : executed->report.findings) ADD_FAILURE() << to_text(finding);
  const auto words = [&](const char* name) {
    const auto bytes = executed->contents(name);
    std::vector<std::uint32_t> values(bytes->size() / 4);
    std::memcpy(values.data(), bytes->data(), bytes->size());
    return values;
  };
  const std::vector<std::uint32_t> in = words("in");
  const std::vector<std::uint32_t> out = words("1");
  for (std::size_t row = 0; row < 4; ++row) {
    for (std::size_t column = 0; column < 8; ++column) {
      EXPECT_EQ(out[row * 8 + column], in[(row + 2) * 16 + column + 8]) << row << ", " << column;
    }
  }
}

TEST(TensorMapArgumentEmulated, IsAGridConstant) { expect_tile(executed_tile("map:u32[16,16]:at=in:box=8,4", false)); }

TEST(TensorMapArgumentEmulated, LiesInAStructure) {
  const std::string zeros(2 * 192, '0');
  expect_tile(executed_tile("bytes=" + zeros + ";@8=&in+4;@64=map:u32[16,16]:at=in:box=8,4", true));
}

TEST(TensorMapArgumentEmulated, NamesABufferThatIsNotThere) {
  const auto executed = executed_tile("map:u32[16,16]:at=elsewhere:box=8,4", false);
  ASSERT_FALSE(executed.ok());
  EXPECT_THAT(executed.error().message, HasSubstr("no buffer is named 'elsewhere'"));
  EXPECT_THAT(executed_tile("map:u32[16,16]:at=in+4:box=8,4", false).error().message, HasSubstr("no multiple of 16"));
  EXPECT_THAT(executed_tile("bytes=0000;@0=&in", false).error().message, HasSubstr("beyond the structure's 2"));
  EXPECT_THAT(executed_tile("bytes=0000;0=&in", false).error().message, HasSubstr("after the digits"));
}

}  // namespace
}  // namespace stitch::cli
