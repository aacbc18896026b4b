// Every form of mma that the emulator has, and the sparse ones of wgmma, against plain products of small whole numbers.
// Fragments are laid out element by element and metadata bit by bit, in the direction of the PTX ISA's formulas and
// figures: from lane and element to row and column.
#include <gmock/gmock.h>

#include <functional>
#include <limits>

#include "emulator/lanes/float_format.h"
#include "tests/emulator/ptx_body.h"

namespace stitch::emulator {
namespace {

using test::body_inputs;
using test::run_body;

using u32 = std::uint32_t;
using u64 = std::uint64_t;

/// How a small whole number is written, and which there are.
struct Format {
  int bits;
  int low, high;
  std::function<u64(int)> encode;
};

u64 small_float(int value, const u64 (&magnitudes)[4], u64 sign) {
  return magnitudes[std::abs(value)] | (value < 0 ? sign : 0);
}

Format format(const std::string& type) {
  const auto as = [](int bits, int low, int high, std::function<u64(int)> encode) {
    return Format{bits, low, high, std::move(encode)};
  };
  const auto low_bits = [](int bits) { return [bits](int x) { return static_cast<u64>(x) & ((u64{1} << bits) - 1); }; };
  if (type == "f64") return as(64, -3, 3, [](int x) { return std::bit_cast<u64>(static_cast<double>(x)); });
  if (type == "tf32") return as(32, -3, 3, [](int x) { return std::bit_cast<u32>(static_cast<float>(x)); });
  if (type == "f16") return as(16, -3, 3, [](int x) { return float_to_half(static_cast<float>(x)); });
  if (type == "bf16") return as(16, -3, 3, [](int x) { return float_to_bfloat(static_cast<float>(x)); });
  if (type == "e4m3") return as(8, -3, 3, [](int x) { return small_float(x, {0, 0x38, 0x40, 0x44}, 0x80); });
  if (type == "e5m2") return as(8, -3, 3, [](int x) { return small_float(x, {0, 0x3C, 0x40, 0x42}, 0x80); });
  if (type == "s8") return as(8, -128, 127, low_bits(8));
  if (type == "u8") return as(8, 0, 255, low_bits(8));
  if (type == "s4") return as(4, -8, 7, low_bits(4));
  if (type == "u4") return as(4, 0, 15, low_bits(4));
  return as(1, 0, 1, low_bits(1));
}

struct Form {
  int m, k;
  std::string a, b, accumulator;
  int selector = -1;         ///< of a sparse A; -1: it is dense
  std::string options = {};  ///< .satfinite or .xor.popc
  bool ordered = false;

  [[nodiscard]] bool sparse() const { return selector >= 0; }
  [[nodiscard]] std::string opcode() const {
    const bool suffix = options.starts_with(".xor") || options.starts_with(".and");
    return fmt::format("mma{}.sync.aligned.m{}n8k{}.row.col{}.{}.{}.{}.{}{}",
                       !sparse() ? ""
                       : ordered ? ".sp::ordered_metadata"
                                 : ".sp",
                       m, k, suffix ? "" : options, accumulator, a, b, accumulator, suffix ? options : "");
  }
};
void PrintTo(const Form& form, std::ostream* out) { *out << form.opcode() << " selector " << form.selector; }

/// A number of the format; of matrix `seed`, at a row and a column.
int value(const Format& type, u64 seed, int row, int column) {
  return type.low +
         static_cast<int>(mix(seed, static_cast<u64>(row * 512 + column)) % static_cast<u64>(type.high - type.low + 1));
}

/// Sparse rows: which of a chunk's elements are kept.
struct Chunks {
  int width, kept, run;  ///< elements, those kept, those that one index moves
  explicit Chunks(const std::string& type)
      : width(type == "tf32"        ? 2
              : type.ends_with("4") ? 8
                                    : 4),
        kept(width / 2),
        run(width == 8 ? 2 : 1) {}

  /// Four bits of metadata: indices of two kept runs, in any order but where they must ascend; of tf32 two meanings.
  [[nodiscard]] u32 bits(int row, int chunk, bool ordered) const {
    const u64 draw = mix(4, static_cast<u64>(row * 64 + chunk));
    if (width == 2) return draw % 2 == 0 ? 0b0100 : 0b1110;
    u32 first = draw % 4, second = (first + 1 + draw / 4 % 3) % 4;
    if (ordered && first > second) std::swap(first, second);
    return first | second << 2;
  }
  [[nodiscard]] int column(u32 bits, int chunk, int kept_index) const {
    if (width == 2) return chunk * 2 + (bits == 0b0100 ? 0 : 1);
    return chunk * width + static_cast<int>(bits >> (2 * (kept_index / run)) & 3) * run + kept_index % run;
  }
};

/// The metadata that a lane holds: nibble v is that of a row and a chunk, or of none.
std::pair<int, int> nibble_place(const Form& form, int lane, int v) {
  const int g = lane / 4, t = lane % 4;
  const int chunks = form.k / Chunks(form.a).width;
  const bool wide = format(form.a).bits >= 16;
  if (chunks == 16) return {g + t % 2 * 8, v + t / 2 * 8};
  if (chunks == 4) return t == form.selector ? std::pair(g + v / 4 * 8, v % 4) : std::pair(-1, 0);
  if (t / 2 != form.selector) return {-1, 0};
  return wide ? std::pair(g + v / 4 * 8, v % 4 + t % 2 * 4) : std::pair(g + t % 2 * 8, v);
}

u32 metadata_word(const Form& form, int lane) {
  u32 word = 0;
  for (int v = 0; v < 8; ++v) {
    const auto [row, chunk] = nibble_place(form, lane, v);
    word |= (row < 0 ? 0 : Chunks(form.a).bits(row % 16, chunk, form.ordered)) << (4 * v);
  }
  return word;
}

/// Row and column of A, full width, for element i of a lane's fragment.
std::pair<int, int> a_place(const Form& form, int lane, int i) {
  const int e = std::max(32 / format(form.a).bits, 1);
  const int reg = i / e, rows = form.m / 8;
  const int row = lane / 4 + reg % rows * 8;
  const int stored = reg / rows * 4 * e + lane % 4 * e + i % e;
  if (!form.sparse()) return {row, stored};
  const Chunks chunks(form.a);
  const int chunk = stored / chunks.kept;
  return {row, chunks.column(chunks.bits(row, chunk, form.ordered), chunk, stored % chunks.kept)};
}

/// 256 bytes a lane: A at 0, B at 64, C at 128, metadata at 160, D at 192.
constexpr int lane_bytes = 256, at_b = 64, at_c = 128, at_metadata = 160, at_d = 192;

void put_bits(std::vector<std::uint8_t>& bytes, std::size_t at, int index, int bits, u64 value) {
  for (int bit = 0; bit < bits; ++bit) {
    const std::size_t place = static_cast<std::size_t>(index) * bits + bit;
    if ((value >> bit & 1) != 0) bytes[at + place / 8] |= static_cast<std::uint8_t>(1U << place % 8);
  }
}

int c_value(const Form& form, int row, int column) {
  const int small = static_cast<int>(mix(3, static_cast<u64>(row * 8 + column)) % 7) - 3;
  if (form.accumulator != "s32") return small;
  // Near both ends of s32, so that sums overflow.
  return small > 0 ? std::numeric_limits<int>::max() - small : small < 0 ? std::numeric_limits<int>::min() - small : 0;
}

u64 c_bits(const Form& form, double value) {
  if (form.accumulator == "f64") return std::bit_cast<u64>(value);
  if (form.accumulator == "f16") return float_to_half(static_cast<float>(value));
  if (form.accumulator == "f32") return std::bit_cast<u32>(static_cast<float>(value));
  auto whole = static_cast<std::int64_t>(value);
  if (form.options == ".satfinite") {
    whole = std::clamp<std::int64_t>(whole, std::numeric_limits<int>::min(), std::numeric_limits<int>::max());
  }
  return static_cast<u32>(whole);
}

int accumulator_bits(const Form& form) { return form.accumulator == "f64" ? 64 : form.accumulator == "f16" ? 16 : 32; }

std::pair<int, int> c_place(int lane, int i) { return {lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2}; }

/// Rows of A, dense: zeros where nothing is kept.
std::vector<std::vector<int>> whole_a(const Form& form) {
  std::vector<std::vector<int>> a(form.m, std::vector<int>(form.k));
  const int count = form.m * (form.sparse() ? form.k / 2 : form.k) / 32;
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < count; ++i) {
      const auto [row, column] = a_place(form, lane, i);
      a[row][column] = value(format(form.a), 1, row, column);
    }
  }
  return a;
}

std::vector<u64> operands(const Form& form) {
  std::vector<std::uint8_t> bytes(32 * lane_bytes);
  const Format a = format(form.a), b = format(form.b);
  const int e = std::max(32 / b.bits, 1);
  for (int lane = 0; lane < 32; ++lane) {
    const std::size_t at = static_cast<std::size_t>(lane) * lane_bytes;
    for (int i = 0; i < form.m * (form.sparse() ? form.k / 2 : form.k) / 32; ++i) {
      const auto [row, column] = a_place(form, lane, i);
      put_bits(bytes, at, i, a.bits, a.encode(value(a, 1, row, column)));
    }
    for (int i = 0; i < form.k / 4; ++i) {
      const int row = i / e * 4 * e + lane % 4 * e + i % e;
      put_bits(bytes, at + at_b, i, b.bits, b.encode(value(b, 2, row, lane / 4)));
    }
    for (int i = 0; i < form.m / 4; ++i) {
      const auto [row, column] = c_place(lane, i);
      put_bits(bytes, at + at_c, i, accumulator_bits(form),
               c_bits({8, 4, "", "", form.accumulator}, c_value(form, row, column)));
    }
    put_bits(bytes, at + at_metadata, 0, 32, form.sparse() ? metadata_word(form, lane) : 0);
  }
  std::vector<u64> table(bytes.size() / 8);
  std::memcpy(table.data(), bytes.data(), bytes.size());
  return table;
}

/// Registers `prefix`first … of an operand of `bits` per lane, loaded from (or stored to) the lane's bytes.
std::string registers(const std::string& prefix, int first, int count, int at, bool wide, std::string& moves,
                      bool stores = false) {
  std::string list;
  for (int i = 0; i < count; ++i) {
    const std::string name = fmt::format("%{}{}", prefix, first + i);
    list += (i == 0 ? "" : ", ") + name;
    const std::string place = fmt::format("[%t1 + {}]", at + i * (wide ? 8 : 4));
    const char* type = wide ? "b64" : "b32";
    moves += stores ? fmt::format("st.global.{} {}, {};\n", type, place, name)
                    : fmt::format("ld.global.{} {}, {};\n", type, name, place);
  }
  return "{" + list + "}";
}

std::string body_of(const Form& form) {
  const bool wide = form.a == "f64";
  const int per = wide ? 64 : 32;
  const int a_count = form.m * (form.sparse() ? form.k / 2 : form.k) / 32 * format(form.a).bits / per;
  const int b_count = form.k / 4 * format(form.b).bits / per;
  const int c_count = form.m / 4 * accumulator_bits(form) / per;
  std::string loads =
      ".reg .b64 %x<32>;\n.reg .b32 %w<32>;\nshl.b32 %r30, %local, 8; cvt.u64.u32 %t1, %r30; add.u64 %t1, %t1, "
      "%table;\n";
  std::string stores;
  const char* prefix = wide ? "x" : "w";
  const std::string a = registers(prefix, 0, a_count, 0, wide, loads);
  const std::string b = registers(prefix, 8, b_count, at_b, wide, loads);
  const std::string c = registers(prefix, 16, c_count, at_c, wide, loads);
  const std::string d = registers(prefix, 24, c_count, at_d, wide, stores, true);
  std::string more;
  if (form.sparse()) {
    loads += fmt::format("ld.global.b32 %r0, [%t1 + {}];\n", at_metadata);
    more = fmt::format(", %r0, {}", form.selector);
  }
  return fmt::format("{}{} {}, {}, {}, {}{};\n{}", loads, form.opcode(), d, a, b, c, more, stores);
}

class MatrixForms : public testing::TestWithParam<Form> {};

TEST_P(MatrixForms, AreProducts) {
  const Form& form = GetParam();
  const test::BodyRun run = run_body(body_of(form), body_inputs(32), 32, operands(form));
  ASSERT_TRUE(run.report.clean()) << test::findings_text(run.report);
  ASSERT_FALSE(run.table.empty());
  const auto a = whole_a(form);
  const Format b = format(form.b);
  const int bits = accumulator_bits(form);
  int overflowed = 0;
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < form.m / 4; ++i) {
      const auto [row, column] = c_place(lane, i);
      std::int64_t wanted = c_value(form, row, column);
      for (int k = 0; k < form.k; ++k) {
        const int y = value(b, 2, k, column);
        wanted += form.options == ".xor.popc" ? a[row][k] ^ y : a[row][k] * y;
      }
      overflowed += wanted != static_cast<int>(wanted) ? 1 : 0;
      u64 found = 0;
      std::memcpy(&found, reinterpret_cast<const char*>(run.table.data()) + lane * lane_bytes + at_d + i * bits / 8,
                  bits / 8);
      ASSERT_EQ(found, c_bits(form, static_cast<double>(wanted))) << "row " << row << " column " << column;
    }
  }
  if (form.options == ".satfinite") {
    EXPECT_GT(overflowed, 0);
  }
}

std::vector<Form> dense_forms() {
  std::vector<Form> forms;
  for (const auto& [m, k] : {std::pair(8, 4), {16, 4}, {16, 8}, {16, 16}}) forms.push_back({m, k, "f64", "f64", "f64"});
  for (const char* accumulator : {"f16", "f32"}) {
    for (const int k : {8, 16}) forms.push_back({16, k, "f16", "f16", accumulator});
    for (const int k : {16, 32}) {
      for (const char* a : {"e4m3", "e5m2"}) {
        for (const char* b : {"e4m3", "e5m2"}) forms.push_back({16, k, a, b, accumulator});
      }
    }
  }
  for (const int k : {8, 16}) forms.push_back({16, k, "bf16", "bf16", "f32"});
  for (const int k : {4, 8}) forms.push_back({16, k, "tf32", "tf32", "f32"});
  for (const char* options : {"", ".satfinite"}) {
    for (const auto& [bits, k] : {std::pair("8", 16), {"4", 32}}) {
      for (const char* a : {"s", "u"}) {
        for (const char* b : {"s", "u"}) {
          forms.push_back({8, k, std::string(a) + bits, std::string(b) + bits, "s32", -1, options});
          forms.push_back({16, k, std::string(a) + bits, std::string(b) + bits, "s32", -1, options});
          forms.push_back({16, 2 * k, std::string(a) + bits, std::string(b) + bits, "s32", -1, options});
        }
      }
    }
  }
  for (const char* options : {".xor.popc", ".and.popc"}) {
    for (const auto& [m, k] : {std::pair(8, 128), {16, 128}, {16, 256}})
      forms.push_back({m, k, "b1", "b1", "s32", -1, options});
  }
  return forms;
}

/// Every type, shape, selector and spelling of mma.sp (PTX ISA, "mma.sp"), but the block-scaled ones of sm_120.
std::vector<Form> sparse_forms() {
  std::vector<Form> forms;
  const auto add = [&](int k, const std::string& a, const std::string& b, const char* accumulator, int selectors,
                       const char* options = "") {
    for (const bool ordered : {false, true}) {
      for (int s = 0; s < selectors; ++s) forms.push_back({16, k, a, b, accumulator, s, options, ordered});
    }
  };
  for (const char* accumulator : {"f16", "f32"}) {
    add(16, "f16", "f16", accumulator, 4);
    add(32, "f16", "f16", accumulator, 2);
  }
  add(16, "bf16", "bf16", "f32", 4);
  add(32, "bf16", "bf16", "f32", 2);
  add(8, "tf32", "tf32", "f32", 4);
  add(16, "tf32", "tf32", "f32", 2);
  for (const char* a : {"e4m3", "e5m2"}) {
    for (const char* b : {"e4m3", "e5m2"}) add(64, a, b, "f32", 1);
  }
  for (const char* options : {"", ".satfinite"}) {
    for (const auto& [bits, k] : {std::pair("8", 32), {"4", 64}}) {
      for (const char* a : {"s", "u"}) {
        for (const char* b : {"s", "u"}) {
          add(k, std::string(a) + bits, std::string(b) + bits, "s32", 2, options);
          add(2 * k, std::string(a) + bits, std::string(b) + bits, "s32", 1, options);
        }
      }
    }
  }
  return forms;
}
INSTANTIATE_TEST_SUITE_P(Dense, MatrixForms, testing::ValuesIn(dense_forms()));
INSTANTIATE_TEST_SUITE_P(Sparse, MatrixForms, testing::ValuesIn(sparse_forms()));

Result<Program> load(const std::string& instruction) {
  return Program::load(test::ptx_module(".reg .b32 %w<32>;\n" + instruction), "kernel");
}

TEST(SparseMatrices, SelectorsAndShapesThatThereAreNotAreRefused) {
  const auto message = [](const std::string& opcode, int a, int b, const std::string& selector) {
    std::string none;
    const auto program = load(fmt::format("{} {}, {}, {}, {}, %r0, {};", opcode, registers("w", 0, 4, 0, false, none),
                                          registers("w", 4, a, 0, false, none), registers("w", 8, b, 0, false, none),
                                          registers("w", 12, 4, 0, false, none), selector));
    return program ? std::string("loaded") : program.error().message;
  };
  EXPECT_EQ(message("mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32", 4, 4, "1"), "loaded");
  EXPECT_THAT(message("mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32", 4, 4, "2"),
              testing::HasSubstr("sparsity selector 2, below 2 for this shape"));
  EXPECT_THAT(message("mma.sp.sync.aligned.m16n8k64.row.col.s32.s8.s8.s32", 4, 4, "1"),
              testing::HasSubstr("selector 1, below 1"));
  EXPECT_THAT(message("mma.sp.sync.aligned.m16n8k64.row.col.f32.f16.f16.f32", 4, 4, "0"),
              testing::HasSubstr("this form of mma"));
  EXPECT_THAT(message("mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32", 2, 4, "0"),
              testing::HasSubstr("expected 4 registers"));
}

TEST(SparseMatrices, MetadataWithoutMeaningAreFound) {
  const Form form{16, 32, "f16", "f16", "f32", 0};
  const auto run_with = [&form](u64 word, bool ordered) {
    Form spelled = form;
    spelled.ordered = ordered;
    std::vector<u64> table = operands(spelled);
    // Lane 4 is the first of those that know row 1.
    table[(4 * lane_bytes + at_metadata) / 8] = word;
    return run_body(body_of(spelled), body_inputs(32), 32, table).report;
  };
  EXPECT_TRUE(run_with(0x11111111, false).clean());  // indices 1 and 0
  for (const auto& [word, ordered] : {std::pair(u64{0x44444440}, false), {u64{0x11111111}, true}}) {
    const LaunchReport report = run_with(word, ordered);
    ASSERT_FALSE(report.findings.empty());
    EXPECT_EQ(report.findings[0].detector, Detector::invalid_use);
    EXPECT_THAT(report.findings[0].message, testing::HasSubstr("sparsity metadata 0b000"));
  }
}

TEST(SparseMatrices, WhatIsNotStoredIsNotMultiplied) {
  // Row r keeps elements 0 and 1 of each chunk; B is infinite at 2 and 3 of it.
  const std::string body = R"(
    mov.u32 %r0, 0x44444444; mov.u32 %r1, 0x3c003c00; and.b32 %r2, %local, 1; setp.eq.u32 %p0, %r2, 0;
    selp.b32 %r3, 0x3c003c00, 0x7c007c00, %p0; mov.u32 %r4, 0;
    mma.sp.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r8, %r9}, {%r1, %r1}, {%r3, %r3}, {%r4, %r4}, %r0, 0;
    mov.b64 %y, {%r8, %r9};)";
  for (const u64 y : test::run_clean_body(body, body_inputs(32))) EXPECT_EQ(y, 0x4800480048004800);
}

/// wgmma.mma_async.sp m64n8: B's 8 columns of 64 bytes as core matrices of 8 × 16 bytes, one behind the other; A's 32
/// bytes a row in registers, or in shared memory likewise, core matrices of 8 rows 256 bytes apart.
class SparseWarpGroups : public testing::TestWithParam<std::tuple<Form, bool>> {};

TEST_P(SparseWarpGroups, AreProducts) {
  const auto& [form, in_registers] = GetParam();
  const Format a = format(form.a), b = format(form.b);
  std::vector<std::uint8_t> bytes(128 * 64);
  // A thread's 64 bytes: A's 4 registers, metadata at 16, its 16 bytes of A's tile at 32, its word of B at 48.
  std::vector<std::uint8_t> a_tile(2048), b_tile(512);
  const int a_bytes_per_row = 32;
  const auto kept_column = [&form](int row, int stored) {
    const Chunks chunks(form.a);
    const int chunk = stored / chunks.kept;
    return chunks.column(chunks.bits(row % 16, chunk, false), chunk, stored % chunks.kept);
  };
  for (int row = 0; row < 64; ++row) {
    for (int stored = 0; stored < form.k / 2; ++stored) {
      const int byte = stored * a.bits / 8;
      const int at = row / 8 * 8 * a_bytes_per_row + byte / 16 * 128 + row % 8 * 16 + byte % 16;
      put_bits(a_tile, at, 0, a.bits, a.encode(value(a, 1, row, kept_column(row, stored))));
    }
  }
  for (int column = 0; column < 8; ++column) {
    for (int k = 0; k < form.k; ++k) {
      const int byte = k * b.bits / 8;
      put_bits(b_tile, byte / 16 * 128 + column * 16 + byte % 16, 0, b.bits, b.encode(value(b, 2, k, column)));
    }
  }
  for (int thread = 0; thread < 128; ++thread) {
    const std::size_t at = static_cast<std::size_t>(thread) * 64;
    for (int i = 0; i < form.k / 4; ++i) {
      const int e = 32 / a.bits, reg = i / e;
      const int row = thread / 32 * 16 + thread % 32 / 4 + reg % 2 * 8;
      const int stored = reg / 2 * 4 * e + thread % 4 * e + i % e;
      put_bits(bytes, at, i, a.bits, a.encode(value(a, 1, row, kept_column(row, stored))));
    }
    put_bits(bytes, at + 16, 0, 32, metadata_word(form, thread % 32));
    std::copy_n(a_tile.begin() + thread * 16, 16, bytes.begin() + static_cast<std::ptrdiff_t>(at) + 32);
    std::copy_n(b_tile.begin() + thread * 4, 4, bytes.begin() + static_cast<std::ptrdiff_t>(at) + 48);
  }
  std::vector<u64> table(bytes.size() / 8);
  std::memcpy(table.data(), bytes.data(), bytes.size());
  const std::string body = fmt::format(
      R"(
    .shared .align 128 .b8 tiles[2560];
    shl.b32 %r30, %local, 6; cvt.u64.u32 %t1, %r30; add.u64 %t1, %t1, %table; mov.u32 %r1, tiles;
    ld.global.v4.b32 {{%r4, %r5, %r6, %r7}}, [%t1]; ld.global.b32 %r0, [%t1 + 16];
    ld.global.v4.b32 {{%r8, %r9, %r10, %r11}}, [%t1 + 32]; ld.global.b32 %r12, [%t1 + 48];
    shl.b32 %r2, %local, 4; add.u32 %r2, %r2, %r1; st.shared.v4.b32 [%r2], {{%r8, %r9, %r10, %r11}};
    shl.b32 %r3, %local, 2; add.u32 %r3, %r3, %r1; st.shared.b32 [%r3 + 2048], %r12;
    fence.proxy.async.shared::cta; bar.sync 0;
    shr.u32 %r13, %r1, 4; cvt.u64.u32 %t2, %r13; or.b64 %t2, %t2, 0x0000001000080000;
    add.u32 %r14, %r1, 2048; shr.u32 %r14, %r14, 4; cvt.u64.u32 %t3, %r14; or.b64 %t3, %t3, 0x0000001000080000;
    mov.u32 %r16, 0; mov.u32 %r17, 0; mov.u32 %r18, 0; mov.u32 %r19, 0;
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sp.sync.aligned.m64n8k{}.{}.{}.{} {{%r16, %r17, %r18, %r19}}, {}, %t3, %r0, {}, 1{};
    wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
    st.global.v4.b32 [%t1], {{%r16, %r17, %r18, %r19}};)",
      form.k, form.accumulator, form.a, form.b, in_registers ? "{%r4, %r5, %r6, %r7}" : "%t2", form.selector,
      form.accumulator == "s32" ? ""
      : a.bits != 16            ? ", 1, 1"
      : in_registers            ? ", 1, 1, 0"
                                : ", 1, 1, 0, 0");
  const test::BodyRun run = run_body(body, body_inputs(128), 128, table);
  ASSERT_TRUE(run.report.clean()) << test::findings_text(run.report);
  std::vector<std::vector<int>> whole(64, std::vector<int>(form.k));
  for (int row = 0; row < 64; ++row) {
    for (int stored = 0; stored < form.k / 2; ++stored) {
      const int column = kept_column(row, stored);
      whole[row][column] = value(a, 1, row, column);
    }
  }
  for (int thread = 0; thread < 128; ++thread) {
    for (int i = 0; i < 4; ++i) {
      const int row = thread / 32 * 16 + thread % 32 / 4 + i / 2 * 8, column = thread % 4 * 2 + i % 2;
      std::int64_t wanted = 0;
      for (int k = 0; k < form.k; ++k) wanted += whole[row][k] * value(b, 2, k, column);
      u32 found = 0;
      std::memcpy(&found, reinterpret_cast<const char*>(run.table.data()) + thread * 64 + i * 4, 4);
      ASSERT_EQ(found, c_bits(form, static_cast<double>(wanted))) << "row " << row << " column " << column;
    }
  }
}

std::vector<Form> sparse_warp_group_forms() {
  std::vector<Form> forms;
  for (int s = 0; s < 2; ++s) {
    forms.push_back({64, 32, "f16", "f16", "f32", s});
    forms.push_back({64, 32, "bf16", "bf16", "f32", s});
    forms.push_back({64, 16, "tf32", "tf32", "f32", s});
  }
  for (const char* a : {"e4m3", "e5m2"}) forms.push_back({64, 64, a, "e4m3", "f32", 0});
  for (const char* a : {"s8", "u8"}) {
    for (const char* b : {"s8", "u8"}) forms.push_back({64, 64, a, b, "s32", 0});
  }
  return forms;
}
INSTANTIATE_TEST_SUITE_P(Table, SparseWarpGroups,
                         testing::Combine(testing::ValuesIn(sparse_warp_group_forms()), testing::Bool()));

}  // namespace
}  // namespace stitch::emulator
