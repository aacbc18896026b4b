#include "codegen/compile/artifact_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <fstream>
#include <thread>

#include "base/random.h"
#include "codegen/compile/artifact.h"
#include "tests/base/test_folder.h"

namespace stitch::codegen {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A kernel of about `bytes` that do not compress; its key is its name's hash.
CompiledKernel kernel_named(const std::string& name, std::size_t bytes = 100) {
  CompiledKernel kernel;
  kernel.key = hash_bytes(name);
  kernel.ptx = name;
  Random random(kernel.key.low);
  while (kernel.cubin.size() < bytes) kernel.cubin.push_back(static_cast<char>(random()));
  kernel.entries = {{name, {.registers = 8}}};
  kernel.resources = maximum_usage(kernel.entries);
  kernel.toolkit = "13.0.88";
  kernel.architecture = "sm_90a";
  return kernel;
}

CompileRequest request(std::string source) {
  CompileRequest result;
  result.source = std::move(source);
  result.architecture = "sm_90a";
  return result;
}

class ArtifactCacheTest : public ::testing::Test {
 protected:
  void SetUp() override { clock_.advance_us(1'700'000'000'000'000); }

  [[nodiscard]] ArtifactCache cache(std::int64_t max_bytes = 1 << 30) {
    return ArtifactCache(files_, clock_, {folder_, max_bytes});
  }

  /// Stores at the next tick of the clock.
  void store(ArtifactCache& into, const std::string& name, std::size_t bytes = 100) {
    clock_.advance_us(1000);
    const Status status = into.store(kernel_named(name, bytes));
    ASSERT_TRUE(status) << status.error().message;
  }

  [[nodiscard]] bool on_disk(const std::string& name) { return files_.exists(cache().path_of(hash_bytes(name))); }

  const TestFolder folder_;
  RealFileSystem files_;
  ManualClock clock_;
};

TEST_F(ArtifactCacheTest, WhatWasStoredIsFoundByAnyCacheOfTheFolder) {
  ArtifactCache first = cache();
  EXPECT_FALSE(first.find(hash_bytes("a")));
  store(first, "a");
  ArtifactCache second = cache();
  for (ArtifactCache* each : {&first, &second}) {
    auto found = each->find(hash_bytes("a"));
    ASSERT_TRUE(found);
    EXPECT_TRUE(found->from_cache);
    found->from_cache = false;
    EXPECT_EQ(*found, kernel_named("a"));
  }
  EXPECT_EQ(first.counts(), (ArtifactCacheCounts{.hits = 1, .misses = 1, .stored = 1}));
  EXPECT_EQ(second.counts(), (ArtifactCacheCounts{.hits = 1}));
}

TEST_F(ArtifactCacheTest, ADamagedEntryIsAMissAndGone) {
  const struct {
    const char* name;
    std::function<void(std::string&)> damage;
  } rows[] = {
      {"emptied", [](std::string& bytes) { bytes.clear(); }},
      {"truncated", [](std::string& bytes) { bytes.resize(bytes.size() / 2); }},
      {"flipped", [](std::string& bytes) { bytes[bytes.size() / 2] ^= 1; }},
      {"overwritten", [](std::string& bytes) { bytes = "something else entirely"; }},
      {"renamed", [](std::string& bytes) { bytes = encode_artifact(kernel_named("another")); }},
  };
  ArtifactCache cache = this->cache();
  std::int64_t damaged = 0;
  for (const auto& row : rows) {
    store(cache, row.name);
    std::string bytes = *files_.read(cache.path_of(hash_bytes(row.name)));
    row.damage(bytes);
    { std::ofstream(cache.path_of(hash_bytes(row.name)), std::ios::binary) << bytes; }
    EXPECT_FALSE(cache.find(hash_bytes(row.name))) << row.name;
    EXPECT_FALSE(on_disk(row.name)) << row.name;
    EXPECT_EQ(cache.counts().damaged, ++damaged);
    EXPECT_EQ(cache.counts().misses, damaged);
    store(cache, row.name);
    EXPECT_TRUE(cache.find(hash_bytes(row.name))) << row.name;
  }
}

TEST_F(ArtifactCacheTest, AnEntryOfAnotherFormatIsAMissAndIsKept) {
  ArtifactCache cache = this->cache();
  store(cache, "newer");
  std::string bytes = *files_.read(cache.path_of(hash_bytes("newer")));
  bytes[8] = 9;
  { std::ofstream(cache.path_of(hash_bytes("newer")), std::ios::binary) << bytes; }
  EXPECT_FALSE(cache.find(hash_bytes("newer")));
  EXPECT_TRUE(on_disk("newer"));
  EXPECT_EQ(cache.counts().damaged, 0);
}

TEST_F(ArtifactCacheTest, TheLeastRecentlyUsedGoFirst) {
  ArtifactCache cache = this->cache(10'000);
  for (const char* name : {"a", "b", "c", "d"}) store(cache, name, 2000);
  clock_.advance_us(1000);
  EXPECT_TRUE(cache.find(hash_bytes("a"))) << "used again, so b is the oldest now";
  store(cache, "e", 2000);
  EXPECT_EQ(cache.counts().evicted, 2) << "down to nine tenths of the bound";
  EXPECT_TRUE(on_disk("a"));
  EXPECT_FALSE(on_disk("b"));
  EXPECT_FALSE(on_disk("c"));
  EXPECT_TRUE(on_disk("d"));
  EXPECT_TRUE(on_disk("e"));
}

TEST_F(ArtifactCacheTest, TheBoundHoldsWhateverIsStored) {
  Random random(11);
  ArtifactCache cache = this->cache(50'000);
  for (int i = 0; i < 200; ++i) {
    store(cache, fmt::format("k{}", i), 100 + random.below(3000));
    std::int64_t total = 0;
    for (const auto& entry : files_.list(folder_)) total += entry.bytes;
    ASSERT_LE(total, 50'000) << "after " << i;
    ASSERT_TRUE(on_disk(fmt::format("k{}", i))) << "the newest stays";
  }
}

TEST_F(ArtifactCacheTest, WhatAnotherProcessStoredCountsToo) {
  ArtifactCache ours = cache(16'000);
  store(ours, "ours", 500);
  ArtifactCache theirs = cache(1 << 30);
  for (int i = 0; i < 20; ++i) store(theirs, fmt::format("theirs{}", i), 2000);
  store(ours, "more", 2000);
  std::int64_t total = 0;
  for (const auto& entry : files_.list(folder_)) total += entry.bytes;
  EXPECT_LE(total, 16'000);
  EXPECT_FALSE(on_disk("ours")) << "the oldest of all";
  EXPECT_TRUE(on_disk("theirs19"));
}

TEST_F(ArtifactCacheTest, OnlyWhatIsOursIsEverDeleted) {
  ArtifactCache cache = this->cache(3000);
  ASSERT_TRUE(files_.make_directories(folder_));
  const std::string key = hash_bytes("x").hex();
  const auto put = [&](const std::string& name, std::int64_t age_seconds) {
    { std::ofstream(folder_ / name) << std::string(5000, 'x'); }
    ASSERT_TRUE(files_.set_modified(folder_ / name, clock_.wall_us() - age_seconds * 1'000'000));
  };
  put("notes.txt", 1'000'000);
  put(".hidden", 1'000'000);
  put("." + key + ".stitchk.123.0", 7200);  // left behind by a process that died
  put("." + key + ".stitchk.124.0", 60);    // being written just now
  store(cache, "a", 1000);
  EXPECT_TRUE(files_.exists(folder_ / "notes.txt"));
  EXPECT_TRUE(files_.exists(folder_ / ".hidden"));
  EXPECT_FALSE(files_.exists(folder_ / ("." + key + ".stitchk.123.0")));
  EXPECT_TRUE(files_.exists(folder_ / ("." + key + ".stitchk.124.0")));
  EXPECT_TRUE(on_disk("a")) << "the others do not count towards the bound";
}

TEST_F(ArtifactCacheTest, SeveralProcessesWriteReadAndEvictAtOnce) {
  constexpr int processes = 4;
  constexpr int rounds = 60;
  std::vector<pid_t> children;
  for (int process = 0; process < processes; ++process) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      RealFileSystem files;
      const SystemClock clock;
      ArtifactCache cache(files, clock, {folder_, 20'000});
      Random random(process);
      bool good = true;
      for (int i = 0; i < rounds; ++i) {
        const std::string name = fmt::format("k{}", random.below(20));
        if (auto found = cache.find(hash_bytes(name))) {
          found->from_cache = false;
          good = good && *found == kernel_named(name, 1000);
        } else {
          good = good && cache.store(kernel_named(name, 1000)).ok();
        }
      }
      good = good && cache.counts().damaged == 0 && cache.counts().failed_stores == 0;
      ::_exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
  std::int64_t total = 0;
  for (const auto& entry : files_.list(folder_)) {
    EXPECT_EQ(entry.path.extension(), ".stitchk") << "no temporary file is left: " << entry.path;
    total += entry.bytes;
  }
  EXPECT_LE(total, 20'000 + processes * 20'000 / 8 + processes * 1500);
}

/// The real files, with a disk that is full from some point on.
class FullDisk final : public FileSystem {
 public:
  std::atomic<bool> full{true};
  [[nodiscard]] Result<std::string> read(const std::filesystem::path& path) const override { return real_.read(path); }
  Status publish(const std::filesystem::path& path, std::string_view contents) override {
    if (full) return make_error(ErrorKind::io, "cannot write {}: No space left on device", path.string());
    return real_.publish(path, contents);
  }
  Status remove(const std::filesystem::path& path) override { return real_.remove(path); }
  Status set_modified(const std::filesystem::path& path, std::int64_t time) override {
    return real_.set_modified(path, time);
  }
  Status make_directories(const std::filesystem::path& path) override { return real_.make_directories(path); }
  [[nodiscard]] bool exists(const std::filesystem::path& path) const override { return real_.exists(path); }
  [[nodiscard]] std::vector<Entry> list(const std::filesystem::path& folder) const override {
    return real_.list(folder);
  }

 private:
  RealFileSystem real_;
};

/// Counts compilations; the sources "broken…" do not compile. Waits for `hold` where it is set.
class FakeCompiler final : public Compiler {
 public:
  Result<CompiledKernel> compile(const CompileRequest& wanted) override {
    ++count;
    if (hold) hold();
    if (wanted.source.starts_with("broken")) return make_error(ErrorKind::compile, "it is {}", wanted.source);
    return kernel_named(wanted.source);
  }
  [[nodiscard]] Hash128 key(const CompileRequest& wanted) const override { return hash_bytes(wanted.source); }
  std::atomic<int> count{0};
  std::function<void()> hold;
};

using CachingCompilerTest = ArtifactCacheTest;

TEST_F(CachingCompilerTest, CompilesOnceAndRemembers) {
  FakeCompiler fake;
  ArtifactCache cache = this->cache();
  CachingCompiler caching(fake, cache);
  const auto first = caching.compile(request("a"));
  const auto second = caching.compile(request("a"));
  ASSERT_TRUE(first && second);
  EXPECT_FALSE(first->from_cache);
  EXPECT_TRUE(second->from_cache);
  EXPECT_EQ(first->cubin, second->cubin);
  EXPECT_EQ(fake.count, 1);
  EXPECT_EQ(caching.key(request("a")), fake.key(request("a")));
}

TEST_F(CachingCompilerTest, FailuresAreNotRemembered) {
  FakeCompiler fake;
  ArtifactCache cache = this->cache();
  CachingCompiler caching(fake, cache);
  for (int i = 0; i < 2; ++i) {
    const auto result = caching.compile(request("broken"));
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error(), (Error{ErrorKind::compile, "it is broken"}));
  }
  EXPECT_EQ(fake.count, 2);
  EXPECT_EQ(cache.counts().stored, 0);
}

TEST_F(CachingCompilerTest, AFullDiskCostsTimeOnlyAndIsToldOnce) {
  FullDisk disk;
  FakeCompiler fake;
  ArtifactCache cache(disk, clock_, {folder_, 1 << 20});
  std::vector<std::string> complaints;
  CachingCompiler caching(fake, cache, [&](std::string_view text) { complaints.emplace_back(text); });
  for (const char* source : {"a", "b", "a"}) {
    const auto kernel = caching.compile(request(source));
    ASSERT_TRUE(kernel) << kernel.error().message;
    EXPECT_EQ(kernel->ptx, source);
  }
  EXPECT_EQ(fake.count, 3);
  EXPECT_EQ(cache.counts(), (ArtifactCacheCounts{.misses = 3, .failed_stores = 3}));
  ASSERT_TRUE(caching.compile(request("c")));
  ASSERT_EQ(complaints.size(), 1u) << "once";
  EXPECT_THAT(complaints[0], HasSubstr("compiled kernels are not kept: cannot write"));
  EXPECT_THAT(complaints[0], HasSubstr("No space left on device"));
  disk.full = false;
  ASSERT_TRUE(caching.compile(request("a")));
  EXPECT_TRUE(caching.compile(request("a"))->from_cache) << "room again";
}

TEST_F(CachingCompilerTest, AFolderThatCannotBeMadeCostsTimeOnly) {
  ASSERT_TRUE(files_.make_directories(folder_));
  { std::ofstream(folder_ / "file") << "in the way"; }
  FakeCompiler fake;
  ArtifactCache cache(files_, clock_, {folder_ / "file" / "cache", 1 << 20});
  std::vector<std::string> complaints;
  CachingCompiler caching(fake, cache, [&](std::string_view text) { complaints.emplace_back(text); });
  EXPECT_TRUE(caching.compile(request("a")));
  EXPECT_TRUE(caching.compile(request("a")));
  EXPECT_EQ(fake.count, 2);
  EXPECT_THAT(complaints, ElementsAre(HasSubstr("cannot create folder")));
}

TEST_F(CachingCompilerTest, ThreadsThatAskForTheSameShareOneCompilation) {
  constexpr int askers = 6;
  FakeCompiler fake;
  FullDisk disk;  // nothing is kept, so that sharing can only come from the flight itself
  ArtifactCache cache(disk, clock_, {folder_, 1 << 20});
  CachingCompiler caching(fake, cache);
  fake.hold = [&] {
    while (caching.shared() < askers - 1) std::this_thread::yield();
  };
  std::array<bool, askers> good{};
  std::vector<std::jthread> threads;
  for (int i = 0; i < askers; ++i) {
    threads.emplace_back([&, i] {
      const auto kernel = caching.compile(request("shared"));
      good[i] = kernel && *kernel == kernel_named("shared");
    });
  }
  threads.clear();
  EXPECT_THAT(good, ::testing::Each(true));
  EXPECT_EQ(fake.count, 1);
  fake.hold = nullptr;
  ASSERT_TRUE(caching.compile(request("shared")));
  EXPECT_EQ(fake.count, 2) << "the flight has landed";
}

TEST_F(CachingCompilerTest, DifferentKernelsDoNotWaitForEachOther) {
  FakeCompiler fake;
  std::barrier<> both(2);  // passes only when two compilations are inside at once
  fake.hold = [&] { both.arrive_and_wait(); };
  ArtifactCache cache = this->cache();
  CachingCompiler caching(fake, cache);
  std::jthread other([&] { EXPECT_TRUE(caching.compile(request("a"))); });
  EXPECT_TRUE(caching.compile(request("b")));
  other.join();
  EXPECT_EQ(fake.count, 2);
}

TEST_F(CachingCompilerTest, TheRealCompilerThroughTheCache) {
  const auto nvrtc = NvrtcCompiler::create();
  ASSERT_TRUE(nvrtc) << nvrtc.error().message;
  ArtifactCache cache = this->cache();
  CachingCompiler caching(**nvrtc, cache);
  const CompileRequest wanted = request("extern \"C\" __global__ void k(float* x) { x[threadIdx.x] = 1; }");
  const auto compiled = caching.compile(wanted);
  ASSERT_TRUE(compiled) << compiled.error().message;
  auto found = caching.compile(wanted);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_TRUE(found->from_cache);
  found->from_cache = false;
  EXPECT_EQ(*found, *compiled);
}

}  // namespace
}  // namespace stitch::codegen
