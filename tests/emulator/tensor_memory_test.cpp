// Tensor memory: the shapes of tcgen05.ld, st, cp and shift (tests/data/emulator/tensor_core.cu).
#include <string>
#include <utility>

#include "tests/emulator/kernel_run.h"
#include "tests/emulator/tensor_core_operands.h"

namespace stitch::emulator {
namespace {

using test::Image;
using test::load_kernel;
using test::Product;
using test::u32;
using test::u64;

struct MoveRow {
  const char* name;
  /// The lane and column of register `i` of thread `t` of a warp.
  std::pair<u32, u32> (*place)(u32 t, u32 i);
};

constexpr MoveRow moves[] = {{"32x32b",
                              [](u32 t, u32 i) {
                                return std::pair{t, i};
                              }},
                             {"16x64b",
                              [](u32 t, u32 i) {
                                return std::pair{t / 4 + t % 2 * 8, t / 2 % 2 + i * 2};
                              }},
                             {"16x128b",
                              [](u32 t, u32 i) {
                                return std::pair{t / 4 + i % 2 * 8, t % 4 + i / 2 * 4};
                              }},
                             {"16x256b",
                              [](u32 t, u32 i) {
                                return std::pair{t / 4 + i / 2 * 8, t % 4 * 2 + i % 2};
                              }},
                             {"16x32bx2", [](u32 t, u32 i) {
                                return std::pair{t % 16, i + t / 16 * 24};
                              }}};

std::vector<u32> show(const std::string& kernel, u32 words) {
  Memory memory;
  const Buffer out = test::make(memory, "d", words * 4);
  ParameterBlock parameters;
  parameters.add(out);
  test::run_clean(load_kernel("tensor_core", kernel), test::shape(1, 128), parameters, memory);
  return test::get<u32>(memory, out);
}

TEST(TensorMemoryMoves, LoadEachShape) {
  for (const MoveRow& row : moves) {
    const std::vector<u32> d = show(std::string("load_") + row.name, 512);
    for (u32 thread = 0; thread < 128; ++thread) {
      for (u32 i = 0; i < 4; ++i) {
        const auto [lane, column] = row.place(thread % 32, i);
        EXPECT_EQ(d[thread * 4 + i], (thread / 32 * 32 + lane) * 64 + column) << row.name << thread << i;
      }
    }
  }
}

TEST(TensorMemoryMoves, StoreEachShape) {
  for (const MoveRow& row : moves) {
    const std::vector<u32> d = show(std::string("store_") + row.name, 128 * 64);
    std::vector<u32> wanted(128 * 64);
    for (u32 thread = 0; thread < 128; ++thread) {
      for (u32 i = 0; i < 4; ++i) {
        const auto [lane, column] = row.place(thread % 32, i);
        const u32 value = thread * 256 + i + 1;
        wanted[(thread / 32 * 32 + lane) * 64 + column] = i == 3 ? value | 5 << 16 : value;
      }
    }
    EXPECT_EQ(d, wanted) << row.name;
  }
}

TEST(TensorMemoryMoves, PackHalvesOfTwoColumns) {
  const std::vector<u32> loaded = show("load_packed", 512);
  const std::vector<u32> stored = show("store_packed", 128 * 64);
  for (u32 thread = 0; thread < 128; ++thread) {
    for (u32 i = 0; i < 4; ++i) {
      const u32 first = thread * 64 + 2 * i;
      EXPECT_EQ(loaded[thread * 4 + i], first | (first + 1) << 16);
      const u32 value = thread * 256 + i + 1;
      EXPECT_EQ(stored[thread * 64 + 2 * i], value & 0xFFFF);
      EXPECT_EQ(stored[thread * 64 + 2 * i + 1], i == 3 ? 5U : 0U);
    }
  }
}

struct CopyRow {
  const char* name;
  u32 rows;
  u32 words;  ///< of a row
  u32 first;  ///< lane that the address names
  /// Whether row `row` goes to `lane`.
  bool (*goes)(u32 row, u32 lane);
};

constexpr CopyRow copies[] = {
    {"128x256b", 128, 8, 0, [](u32 row, u32 lane) { return row == lane; }},
    {"128x128b", 128, 4, 0, [](u32 row, u32 lane) { return row == lane; }},
    {"4x256b", 4, 8, 31, [](u32 row, u32 lane) { return lane == row * 32 + 31; }},
    {"64x128b_02_13", 64, 4, 0, [](u32 row, u32 lane) { return row == lane % 64; }},
    {"64x128b_01_23", 64, 4, 0, [](u32 row, u32 lane) { return row == lane / 64 * 32 + lane % 32; }},
    {"32x128b", 32, 4, 0, [](u32 row, u32 lane) { return row == lane % 32; }}};

TEST(TensorMemoryMoves, CopyEachShape) {
  for (const CopyRow& row : copies) {
    for (const int swizzle : {0, 128}) {
      if (swizzle == 128 && row.rows < 8) continue;
      const int rows = std::max<int>(row.rows, 8);
      const int depth = swizzle == 128 ? 32 : static_cast<int>(row.words);
      Image image({swizzle, false}, rows, depth, 32);
      for (u32 r = 0; r < row.rows; ++r) {
        for (u32 c = 0; c < row.words; ++c)
          image.put(static_cast<int>(r), static_cast<int>(c), 0x10000000 + r * 64 + c, 32);
      }
      Memory memory;
      Product product;
      product.a = test::put(memory, "image", image.bytes).address;
      product.a_bytes = static_cast<int>(image.bytes.size());
      product.a_descriptor = image.descriptor();
      product.shape = row.first;
      const Buffer out = test::make(memory, "d", u64{128} * 16 * 4);
      ParameterBlock parameters;
      parameters.add(product).add(out);
      test::run_clean(load_kernel("tensor_core", std::string("copy_") + row.name), test::shape(1, 128, 64 * 1024),
                      parameters, memory);
      const std::vector<u32> d = test::get<u32>(memory, out);
      for (u32 lane = 0; lane < 128; ++lane) {
        for (u32 c = 0; c < 16; ++c) {
          u32 wanted = lane << 16 | c;
          for (u32 r = 0; r < row.rows; ++r) {
            if (row.goes(r, lane) && c < row.words) wanted = 0x10000000 + r * 64 + c;
          }
          EXPECT_EQ(d[lane * 16 + c], wanted)
              << row.name << " swizzle " << swizzle << " lane " << lane << " column " << c;
        }
      }
    }
  }
}

TEST(TensorMemoryMoves, ShiftLanesWithinEach32) {
  Memory memory;
  Product product;
  product.a = test::put(memory, "image", std::vector<u32>(4)).address;
  product.a_bytes = 16;
  const Buffer out = test::make(memory, "d", u64{128} * 16 * 4);
  ParameterBlock parameters;
  parameters.add(product).add(out);
  test::run_clean(load_kernel("tensor_core", "copy_shift"), test::shape(1, 128, 4096), parameters, memory);
  const std::vector<u32> d = test::get<u32>(memory, out);
  for (u32 lane = 0; lane < 128; ++lane) {
    for (u32 c = 0; c < 16; ++c) {
      EXPECT_EQ(d[lane * 16 + c], (c < 8 && lane % 32 != 31 ? lane + 1 : lane) << 16 | c) << lane << " " << c;
    }
  }
}

}  // namespace
}  // namespace stitch::emulator
