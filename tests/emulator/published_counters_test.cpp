// The emulator's counters beside those that NVIDIA's guides, blogs and forums state for textbook kernels. The rows are
// docs/published-counters.md; STITCH_UPDATE_GOLDEN=1 writes the page anew.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "tests/emulator/kernel_run.h"

namespace stitch::emulator {
namespace {

using test::load_kernel;

/// Buffers of this many words of values 1, 2, … and numbers, in the order of the kernel's parameters.
struct Argument {
  std::size_t words = 0;
  int number = 0;
};
constexpr Argument buffer(std::size_t words) { return {words, 0}; }
constexpr Argument number(int value) { return {0, value}; }

struct TextbookRun {
  const char* kernel;
  Dim3 grid;
  Dim3 block;
  std::vector<Argument> arguments;
  std::uint32_t shared_bytes = 0;
};

Counters counted(const TextbookRun& run) {
  Memory memory;
  ParameterBlock parameters;
  for (std::size_t i = 0; i < run.arguments.size(); ++i) {
    const Argument& argument = run.arguments[i];
    if (argument.words == 0) {
      parameters.add(argument.number);
      continue;
    }
    // Small whole numbers, which are positive as f32 and as s32.
    std::vector<std::uint32_t> words(argument.words);
    for (std::size_t k = 0; k < words.size(); ++k) words[k] = 1 + static_cast<std::uint32_t>(k % 7);
    // A filter's counter begins at zero.
    if (argument.words == 1) words[0] = 0;
    parameters.add(test::put(memory, std::to_string(i), words));
  }
  LaunchConfig config;
  config.grid = run.grid;
  config.block = run.block;
  config.dynamic_shared_bytes = run.shared_bytes;
  return test::run_clean(load_kernel("published", run.kernel), config, parameters, memory).counters;
}

double warps_of(const TextbookRun& run) {
  return static_cast<double>(run.grid.count()) * static_cast<double>(run.block.count()) / 32;
}

using Measure = double (*)(const Counters&, const TextbookRun&);

double load_sectors(const Counters& c, const TextbookRun&) { return c.global_loads.sectors_per_request(); }
double store_sectors(const Counters& c, const TextbookRun&) { return c.global_stores.sectors_per_request(); }
/// Of 4-byte elements: what 32 lanes ask for as a part of what is moved, percent.
double load_efficiency(const Counters& c, const TextbookRun&) {
  return 100.0 * 128.0 / (32.0 * c.global_loads.sectors_per_request());
}
/// Wavefronts of a shared-memory load, where loads are what may conflict.
double load_wavefronts(const Counters& c, const TextbookRun&) {
  return static_cast<double>(c.shared_wavefronts - c.shared_store_requests) / c.shared_load_requests;
}
double extra_wavefronts(const Counters& c, const TextbookRun&) { return c.shared_extra_wavefronts; }
/// Where one store of each warp is the only access that may conflict: its wavefronts.
double one_store_wavefronts(const Counters& c, const TextbookRun& run) {
  return 1 + c.shared_extra_wavefronts / warps_of(run);
}
double additions_per_block(const Counters& c, const TextbookRun& run) {
  // Each addition loads two elements; thread 0 loads the block's sum at the end.
  return (static_cast<double>(c.of(InstructionClass::shared_load).lanes) / run.grid.count() - 1) / 2;
}
double barriers_per_block(const Counters& c, const TextbookRun& run) {
  return static_cast<double>(c.block_barriers) / run.grid.count();
}
/// How often each element of two n × n matrices is loaded, for n in the last argument.
double reads_of_an_element(const Counters& c, const TextbookRun& run) {
  const double n = run.arguments.back().number;
  return c.of(InstructionClass::global_load).lanes / (2 * n * n);
}
double load_requests(const Counters& c, const TextbookRun&) { return c.global_loads.requests; }
double load_bytes(const Counters& c, const TextbookRun&) { return 32.0 * c.global_loads.sectors; }
double atomics(const Counters& c, const TextbookRun&) { return c.global_atomics; }
double shuffles_per_warp(const Counters& c, const TextbookRun& run) {
  return c.of(InstructionClass::shuffle).warps / warps_of(run);
}

constexpr const char* global_access =
    "M. Harris, [How to Access Global Memory Efficiently in CUDA C/C++ "
    "Kernels](https://developer.nvidia.com/blog/how-access-global-memory-efficiently-cuda-c-kernels/); counts: [CUDA "
    "C++ Best "
    "Practices Guide](https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/), A Sequential but Misaligned Access "
    "Pattern";
constexpr const char* strided_access = "the same kernels; counts: Best Practices Guide, Strided Accesses";
constexpr const char* transpose =
    "M. Harris, [An Efficient Matrix Transpose in CUDA "
    "C/C++](https://developer.nvidia.com/blog/efficient-matrix-transpose-cuda-cc/); why: [its discussion in the "
    "forum](https://forums.developer.nvidia.com/t/an-efficient-matrix-transpose-in-cuda-fortran/148389)";
constexpr const char* reduction =
    "M. Harris, [Optimizing Parallel Reduction in "
    "CUDA](https://developer.download.nvidia.com/assets/cuda/files/reduction.pdf)";
constexpr const char* guide =
    "[CUDA C++ Programming Guide](https://docs.nvidia.com/cuda/cuda-c-programming-guide/), Shared Memory";
constexpr const char* guide_banks = "Programming Guide, Strided Shared Memory Accesses (5.x and later)";
constexpr const char* aat = "Best Practices Guide, Shared Memory in Matrix Multiplication (C=AAᵀ)";
constexpr const char* patterns =
    "measured with Nsight Compute: [Profiling coalesced memory accesses "
    "confusion](https://forums.developer.nvidia.com/t/profiling-coalesced-memory-accesses-confusion/169185)";
constexpr const char* lds128 =
    "measured with Nsight Compute: [bank_conflicts metric vs wavefronts for shared memory "
    "LDS.128](https://forums.developer.nvidia.com/t/"
    "clarification-bank-conflicts-metric-vs-wavefronts-for-shared-memory-"
    "lds-128/359822)";
constexpr const char* vectors =
    "J. Luitjens, [Increase Performance with Vectorized Memory "
    "Access](https://developer.nvidia.com/blog/cuda-pro-tip-increase-performance-with-vectorized-memory-access/): a "
    "half "
    "and a quarter of the instructions, the same bytes";
constexpr const char* aggregated =
    "A. Adinets, [Optimized Filtering with Warp-Aggregated "
    "Atomics](https://developer.nvidia.com/blog/cuda-pro-tip-optimized-filtering-warp-aggregated-atomics/): one for a "
    "warp "
    "instead of one for each lane that passes";
constexpr const char* shuffled =
    "J. Luitjens, [Faster Parallel Reductions on "
    "Kepler](https://developer.nvidia.com/blog/faster-parallel-reductions-kepler/): log2(32) steps";

struct PublishedRow {
  const char* what;
  const char* event;
  Measure measure;
  double published;
  const char* source;
  TextbookRun run;
};

TextbookRun offset(int s) { return {"offset_copy", {8, 1, 1}, {256, 1, 1}, {buffer(2048 + 64), number(s)}}; }
TextbookRun stride(int s) { return {"stride_copy", {8, 1, 1}, {256, 1, 1}, {buffer(2048 * 32), number(s)}}; }
TextbookRun transposed(const char* kernel) {
  return {kernel, {4, 4, 1}, {32, 8, 1}, {buffer(128 * 128), buffer(128 * 128)}};
}
TextbookRun reduced(const char* kernel, std::uint32_t blocks) {
  return {kernel, {blocks, 1, 1}, {128, 1, 1}, {buffer(64), buffer(1024)}};
}
TextbookRun multiplied(const char* kernel, Dim3 block) {
  const std::size_t count = 64 * 64;
  return {kernel, {64 / block.x, 64 / block.y, 1}, block, {buffer(count), buffer(count), buffer(count), number(64)}};
}
TextbookRun with_itself(const char* kernel) {
  return {kernel, {2, 2, 1}, {32, 32, 1}, {buffer(64 * 64), buffer(64 * 32), number(64)}};
}
TextbookRun shared(const char* kernel, int words) {
  return {kernel, {1, 1, 1}, {32, 1, 1}, {buffer(128), number(words)}, static_cast<std::uint32_t>(128 * words)};
}
TextbookRun copied(const char* kernel, int vector) {
  return {kernel, {4, 1, 1}, {128, 1, 1}, {buffer(8192), buffer(8192), number(8192 / vector)}};
}
TextbookRun filtered(const char* kernel) {
  return {kernel, {8, 1, 1}, {256, 1, 1}, {buffer(2048), buffer(1), buffer(2048), number(2048)}};
}

constexpr const char* load_event = "sectors of a load request";
constexpr const char* store_event = "sectors of a store request";
constexpr const char* load_waves = "wavefronts of a shared load";
constexpr const char* store_waves = "wavefronts of the transposed store";
constexpr const char* conflicts = "wavefronts beyond the least";

std::vector<PublishedRow> published_rows() {
  const Dim3 tiles{16, 16, 1};
  const Dim3 wide{32, 16, 1};
  return {
      {"copy, no offset", load_event, load_sectors, 4, global_access, offset(0)},
      {"copy, offset of 1 word", load_event, load_sectors, 5, global_access, offset(1)},
      {"copy, offset of 7 words", load_event, load_sectors, 5, global_access, offset(7)},
      {"copy, offset of 8 words", load_event, load_sectors, 4, global_access, offset(8)},
      {"copy, offset of 17 words", load_event, load_sectors, 5, global_access, offset(17)},
      {"copy, offset of 24 words", store_event, store_sectors, 4, global_access, offset(24)},
      {"copy, stride 1", "efficiency of loads, %", load_efficiency, 100, strided_access, stride(1)},
      {"copy, stride 2", "efficiency of loads, %", load_efficiency, 50, strided_access, stride(2)},
      {"copy, stride 8", load_event, load_sectors, 32, strided_access, stride(8)},
      {"copy, stride 32", store_event, store_sectors, 32, strided_access, stride(32)},
      {"transpose, copy", store_event, store_sectors, 4, transpose, transposed("transpose_copy")},
      {"transpose, naive", load_event, load_sectors, 4, transpose, transposed("transpose_naive")},
      {"transpose, naive", store_event, store_sectors, 32, transpose, transposed("transpose_naive")},
      {"transpose, tile of 32 × 32", store_event, store_sectors, 4, transpose, transposed("transpose_coalesced")},
      {"transpose, tile of 32 × 32", load_waves, load_wavefronts, 32, transpose, transposed("transpose_coalesced")},
      {"transpose, tile of 32 × 33", load_waves, load_wavefronts, 1, transpose, transposed("transpose_padded")},
      {"reduction 1, interleaved", "additions of a block of 128", additions_per_block, 127, reduction,
       reduced("reduce_interleaved_divergent", 8)},
      {"reduction 1, interleaved", "barriers of a block: log2(128), and one", barriers_per_block, 8, reduction,
       reduced("reduce_interleaved_divergent", 8)},
      {"reduction 3, sequential", conflicts, extra_wavefronts, 0, reduction, reduced("reduce_sequential", 8)},
      {"reduction 3, sequential", "additions of a block of 128", additions_per_block, 127, reduction,
       reduced("reduce_sequential", 8)},
      {"reduction 4, first add on load", conflicts, extra_wavefronts, 0, reduction, reduced("reduce_first_add", 4)},
      {"reduction 4, first add on load", "bytes loaded, by half the blocks", load_bytes, 4096, reduction,
       reduced("reduce_first_add", 4)},
      {"product of 64 × 64, naive", "reads of an element: B.width", reads_of_an_element, 64, guide,
       multiplied("multiply_naive", tiles)},
      {"product of 64 × 64, tiles of 16", "reads of an element: B.width / 16", reads_of_an_element, 4, guide,
       multiplied("multiply_shared", tiles)},
      {"product of 64 × 64, tiles of 16", "bytes loaded: 4 × both matrices", load_bytes, 4 * 2 * 64 * 64 * 4, guide,
       multiplied("multiply_shared", tiles)},
      {"product, pattern of the original", load_event, load_sectors, 2.5, patterns, multiplied("multiply_naive", wide)},
      {"product, pattern 1", load_event, load_sectors, 1, patterns, multiplied("multiply_pattern_1", wide)},
      {"product, pattern 2", load_event, load_sectors, 4, patterns, multiplied("multiply_pattern_2", wide)},
      {"C=AAᵀ, tile of 32 × 32", store_waves, one_store_wavefronts, 32, aat, with_itself("multiply_aat")},
      {"C=AAᵀ, tile of 32 × 33", store_waves, one_store_wavefronts, 1, aat, with_itself("multiply_aat_padded")},
      {"shared memory, stride 1", load_waves, load_wavefronts, 1, guide_banks, shared("shared_stride", 1)},
      {"shared memory, stride 2", load_waves, load_wavefronts, 2, guide_banks, shared("shared_stride", 2)},
      {"shared memory, stride 3", load_waves, load_wavefronts, 1, guide_banks, shared("shared_stride", 3)},
      {"shared memory, 16 bytes a lane, rows of 16", load_waves, load_wavefronts, 4, lds128,
       shared("shared_vector", 4)},
      {"shared memory, 16 bytes a lane, rows of 16", conflicts, extra_wavefronts, 0, lds128,
       shared("shared_vector", 4)},
      {"shared memory, 16 bytes a lane, rows of 128", load_waves, load_wavefronts, 32, lds128,
       shared("shared_vector", 32)},
      {"shared memory, 16 bytes a lane, rows of 128", conflicts, extra_wavefronts, 28, lds128,
       shared("shared_vector", 32)},
      {"copy of 8192 int", "load requests", load_requests, 256, vectors, copied("copy_scalar", 1)},
      {"copy of 8192 int as int2", "load requests", load_requests, 128, vectors, copied("copy_vector2", 2)},
      {"copy of 8192 int as int4", "load requests", load_requests, 64, vectors, copied("copy_vector4", 4)},
      {"copy of 8192 int as int4", "bytes loaded", load_bytes, 32768, vectors, copied("copy_vector4", 4)},
      {"filter that 2048 pass", "atomics", atomics, 2048, aggregated, filtered("filter_atomics")},
      {"filter that 2048 pass, aggregated", "atomics", atomics, 64, aggregated, filtered("filter_aggregated")},
      {"sum of a warp",
       "shuffles",
       shuffles_per_warp,
       5,
       shuffled,
       {"reduce_shuffle", {8, 1, 1}, {128, 1, 1}, {buffer(32), buffer(1024)}}},
  };
}

std::string page_of(const std::vector<PublishedRow>& rows, const std::vector<double>& ours) {
  std::string page =
      "# Published counters\n\nTextbook kernels ([published.cu](../tests/data/emulator/published.cu), compiled by "
      "NVRTC 13.0 for "
      "sm_90a), what their authors or a profiler's user state of them, and what the emulator counts "
      "([emulator.md](emulator.md#what-is-counted)). Written by `STITCH_UPDATE_GOLDEN=1 "
      "build/release/bin/emulator_test "
      "--gtest_filter='PublishedCounters.*'`; the same test fails when a count differs from the published one, or the "
      "page from the test.\n\nNothing here was run on a GPU by us. Two sources are measurements by others; of the "
      "second one only "
      "the counts are told, not the layout: rows of 128 bytes are one that has them. The rest are what NVIDIA's texts "
      "derive; "
      "their numbers are given as known, only the forum's threads were at hand. A *wavefront* is a pass over the 32 "
      "banks; a "
      "conflict of n ways takes n.\n\n"
      "| kernel | event | published | ours | source |\n|---|---|---|---|---|\n";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    page += fmt::format("| {} | {} | {} | {} | {} |\n", rows[i].what, rows[i].event, rows[i].published, ours[i],
                        rows[i].source);
  }
  return page;
}

TEST(PublishedCounters, AreOurs) {
  const std::vector<PublishedRow> rows = published_rows();
  std::vector<double> ours;
  for (const PublishedRow& row : rows) {
    ours.push_back(row.measure(counted(row.run), row.run));
    EXPECT_DOUBLE_EQ(ours.back(), row.published) << row.what << ": " << row.event;
  }
  const std::filesystem::path path = std::filesystem::path(STITCH_SOURCE_DIR) / "docs/published-counters.md";
  const std::string page = page_of(rows, ours);
  if (std::getenv("STITCH_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << page;
  std::ifstream file(path);
  std::ostringstream committed;
  committed << file.rdbuf();
  EXPECT_EQ(committed.str(), page) << "STITCH_UPDATE_GOLDEN=1 writes the page anew";
}

/// What the slides say in words: version 1 has divergent warps and no conflicts, version 2 conflicts instead, and
/// version 3 neither; each version issues fewer warp instructions than the one before.
TEST(PublishedCounters, ReductionsImproveAsTheSlidesSay) {
  const Counters first = counted(reduced("reduce_interleaved_divergent", 8));
  const Counters second = counted(reduced("reduce_interleaved", 8));
  const Counters third = counted(reduced("reduce_sequential", 8));
  EXPECT_EQ(first.shared_extra_wavefronts, 0);
  EXPECT_GT(second.shared_extra_wavefronts, 0);
  EXPECT_EQ(third.shared_extra_wavefronts, 0);
  // Warps in which some lane adds: of version 1 all four until the stride passes a warp.
  const auto adding = [](const Counters& c) { return (c.of(InstructionClass::shared_load).warps / 8 - 1) / 2; };
  EXPECT_EQ(adding(first), 4 + 4 + 4 + 4 + 4 + 2 + 1);
  EXPECT_EQ(adding(second), 2 + 1 + 1 + 1 + 1 + 1 + 1);
  EXPECT_EQ(adding(third), 2 + 1 + 1 + 1 + 1 + 1 + 1);
  EXPECT_GT(first.total().warps, second.total().warps);
  EXPECT_GE(second.total().warps, third.total().warps);
}

}  // namespace
}  // namespace stitch::emulator
