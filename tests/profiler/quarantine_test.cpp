#include "profiler/device/quarantine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/base/test_folder.h"

namespace stitch::profiler {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const KernelImage image = {"softmax", "ptx", "cubin", "sm_90a"};
const LaunchShape shape = {64, 256, 1, 0, false};

Hash128 key_of(const KernelImage& of, const LaunchShape& with) {
  return quarantine_key(std::vector{std::pair(hash_of(of), with)});
}

QuarantineEntry entry(const Hash128& key, const std::string& device = "GPU-1") {
  return {key, device, "kernel softmax (64 x 256 threads)", "gave no answer to launch within 20 s", "", 0};
}

class QuarantineTest : public testing::Test {
 protected:
  QuarantineTest() { clock_.advance_us(1763750000000000); }

  RealFileSystem files_;
  ManualClock clock_;
  const TestFolder folder_;
  const std::filesystem::path path_ = folder_ / "quarantine.json";
};

TEST_F(QuarantineTest, KeysTellImagesShapesAndSequencesApart) {
  std::vector<Hash128> keys = {key_of(image, shape)};
  for (const KernelImage& other :
       {KernelImage{"soft", "ptx", "cubin", "sm_90a"}, KernelImage{"softmax", "p", "cubin", ""},
        KernelImage{"softmax", "ptx", "c", "sm_90a"}}) {
    keys.push_back(key_of(other, shape));
  }
  for (const LaunchShape& other :
       {LaunchShape{65, 256, 1, 0, false}, LaunchShape{64, 128, 1, 0, false}, LaunchShape{64, 256, 2, 0, false},
        LaunchShape{64, 256, 1, 16, false}, LaunchShape{64, 256, 1, 0, true}}) {
    keys.push_back(key_of(image, other));
  }
  const auto one = std::pair(hash_of(image), shape);
  keys.push_back(quarantine_key(std::vector{one, one}));
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(std::unique(keys.begin(), keys.end()), keys.end());
  EXPECT_EQ(key_of(image, shape), key_of(image, shape));
}

TEST_F(QuarantineTest, OutlivesItsProcess) {
  const Hash128 key = key_of(image, shape);
  {
    Quarantine quarantine(files_, clock_, path_);
    ASSERT_TRUE(quarantine.load());
    EXPECT_TRUE(quarantine.check(key, "GPU-1"));
    ASSERT_TRUE(quarantine.add(entry(key)));
    ASSERT_TRUE(quarantine.add(entry(key)));  // a second strike is the same entry
  }
  Quarantine quarantine(files_, clock_, path_);
  ASSERT_TRUE(quarantine.load());
  ASSERT_EQ(quarantine.entries().size(), 1U);
  const Status refused = quarantine.check(key, "GPU-1");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::runtime);
  EXPECT_EQ(refused.error().message,
            "kernel softmax (64 x 256 threads) is quarantined on GPU-1 since 2025-11-21T18:33:20Z: gave no answer to "
            "launch within 20 s");
  EXPECT_TRUE(quarantine.check(key, "GPU-2"));  // another device may do better
  EXPECT_TRUE(quarantine.check(key_of(image, {1, 32, 1, 0, false}), "GPU-1"));
}

TEST_F(QuarantineTest, KeepsWhatOthersAddMeanwhile) {
  Quarantine one(files_, clock_, path_), other(files_, clock_, path_);
  const Hash128 first = key_of(image, shape), second = key_of(image, {1, 32, 1, 0, false});
  ASSERT_TRUE(one.add(entry(first)));
  ASSERT_TRUE(other.add(entry(second)));
  Quarantine both(files_, clock_, path_);
  ASSERT_TRUE(both.load());
  EXPECT_TRUE(both.find(first, "GPU-1"));
  EXPECT_TRUE(both.find(second, "GPU-1"));
}

TEST_F(QuarantineTest, EntriesOfOtherVersionsExpire) {
  Quarantine quarantine(files_, clock_, path_);
  ASSERT_TRUE(quarantine.add(entry(key_of(image, shape))));
  std::string text = *files_.read(path_);
  const std::string tool = "\"tool\": \"";
  text.replace(text.find(tool) + tool.size(), 1, "9");
  ASSERT_TRUE(files_.publish(path_, text));
  Quarantine later(files_, clock_, path_);
  ASSERT_TRUE(later.load());
  EXPECT_TRUE(later.entries().empty());
}

TEST_F(QuarantineTest, ClearsFileAndMemory) {
  Quarantine quarantine(files_, clock_, path_);
  ASSERT_TRUE(quarantine.add(entry(key_of(image, shape))));
  ASSERT_TRUE(quarantine.clear());
  EXPECT_TRUE(quarantine.entries().empty());
  EXPECT_FALSE(files_.exists(path_));
  EXPECT_TRUE(quarantine.clear());
}

TEST_F(QuarantineTest, NamesADamagedFileAndCanBeginAnew) {
  const struct {
    const char* text;
    ErrorKind kind;
    const char* message;
  } cases[] = {
      {"{", ErrorKind::corrupt, "byte"},
      {"[]", ErrorKind::corrupt, "cannot use at() with array"},
      {R"({"format": "x", "version": 1, "entries": []})", ErrorKind::corrupt, "not a quarantine"},
      {R"({"format": "stitch-quarantine", "version": 2, "entries": []})", ErrorKind::version_mismatch, "version 2"},
      {R"({"format": "stitch-quarantine", "version": 1, "entries": [{"key": "xyz"}]})", ErrorKind::corrupt,
       "entries[0].key is no hash"},
  };
  for (const auto& [text, kind, message] : cases) {
    ASSERT_TRUE(files_.publish(path_, text));
    Quarantine quarantine(files_, clock_, path_);
    const Status loaded = quarantine.load();
    ASSERT_FALSE(loaded) << text;
    EXPECT_EQ(loaded.error().kind, kind) << text;
    EXPECT_THAT(loaded.error().message, testing::AllOf(HasSubstr(path_.string()), HasSubstr(message)));
    ASSERT_TRUE(quarantine.add(entry(key_of(image, shape))));
    Quarantine again(files_, clock_, path_);
    EXPECT_TRUE(again.load());
    EXPECT_EQ(again.entries().size(), 1U);
  }
}

TEST_F(QuarantineTest, AFolderThatIsNotThereIsAnErrorAndTheEntryHolds) {
  Quarantine quarantine(files_, clock_, path_ / "no" / "folder.json");
  const Hash128 key = key_of(image, shape);
  EXPECT_FALSE(quarantine.add(entry(key)));
  EXPECT_FALSE(quarantine.check(key, "GPU-1"));
  EXPECT_FALSE(quarantine.add(entry(key_of(image, {1, 1, 1, 0, false}))));
  EXPECT_EQ(quarantine.entries().size(), 2U);
}

}  // namespace
}  // namespace stitch::profiler
