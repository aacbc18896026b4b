#include "import/donations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "import/import.h"

namespace stitch::import {
namespace {

using graph::Donation;
using testing::ElementsAre;
using testing::HasSubstr;

/// Two caches of one type that get a row each, a mask, and what the header says besides.
std::string decoder(const std::string& header) {
  return "HloModule decoder" + header + R"(
ENTRY main {
  keys = bf16[4,128,64] parameter(0)
  values = bf16[4,128,64] parameter(1)
  mask = f32[128] parameter(2)
  row = bf16[4,1,64] parameter(3)
  at = s32[] parameter(4)
  zero = s32[] constant(0)
  new_keys = bf16[4,128,64] dynamic-update-slice(keys, row, zero, at, zero)
  new_values = bf16[4,128,64] dynamic-update-slice(values, row, zero, at, zero)
  wider = f32[128] add(mask, mask)
  ROOT all = (bf16[4,128,64], bf16[4,128,64], f32[128]) tuple(new_keys, new_values, wider)
}
)";
}

Result<Imported> imported(const std::string& header, std::vector<std::string> donations = {}) {
  ImportOptions options;
  options.donations = std::move(donations);
  return import_bytes(decoder(header), "decoder.hlo.txt", options);
}

TEST(Donations, AreReadFromAnHloHeader) {
  const auto model = imported(", input_output_alias={ {1}: (1, {}, must-alias), {0}: (0, {}, may-alias) }");
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_THAT(model->donations, ElementsAre(Donation{1, 1}, Donation{0, 0}));
  EXPECT_TRUE(imported("")->donations.empty());
}

TEST(Donations, AreNamedByNamePositionOrPattern) {
  const auto of = [](const std::vector<std::string>& texts) {
    const auto model = imported("", texts);
    EXPECT_TRUE(model.ok()) << (model ? "" : model.error().message);
    return model ? model->donations : std::vector<Donation>{};
  };
  EXPECT_THAT(of({"keys:new_keys", "values:1"}), ElementsAre(Donation{0, 0}, Donation{1, 1}));
  EXPECT_THAT(of({"1:0"}), ElementsAre(Donation{1, 0}));
  EXPECT_THAT(of({"mask"}), ElementsAre(Donation{2, 2}));
  EXPECT_THAT(of({"*s:new_*s"}), ElementsAre(Donation{0, 0}, Donation{1, 1}));
  EXPECT_THAT(of({"keys:0", "0:new_keys"}), ElementsAre(Donation{0, 0}));
}

struct Wrong {
  std::string header;
  std::vector<std::string> donations;
  std::string message;
};

TEST(Donations, ThatCannotBeAreNamed) {
  const Wrong cases[] = {
      {"", {"kyes:0"}, "donation 'kyes:0': the model has no parameter 'kyes'"},
      {"", {"keys:3"}, "donation 'keys:3': the model has no result 3: there are 3"},
      {"",
       {"keys:2"},
       "donation 'keys:2': result 2 is f32[128] and cannot take the memory of parameter 0, bf16[4,128,64]"},
      {"", {"keys"}, "2 results are bf16[4,128,64], as the parameter is: name one"},
      {"", {"at"}, "0 results are s32[]"},
      {"", {"keys:0", "values:0"}, "result 0 takes the memory of parameter 0 already"},
      {"", {"keys:0", "keys:1"}, "parameter 0 is given to result 0 already"},
      {"", {"key*:new"}, "one * on either side of the colon"},
      {"", {"old_*:new_*"}, "the model has no parameter 'old_*'"},
      {", input_output_alias={ {0}: (2, {}, must-alias) }",
       {},
       "line 1, column 41: input_output_alias: result 0 is bf16[4,128,64] and cannot take the memory of parameter 2"},
      {", input_output_alias={ {7}: (0, {}, must-alias) }", {}, "input_output_alias: index 7 of 3 elements"},
      {", input_output_alias={ {}: (0, {}, must-alias) }", {}, "input_output_alias: an index leads to a tuple"},
      {", input_output_alias={ {0}: (9, {}, must-alias) }", {}, "input_output_alias: parameter 9 of 5"},
  };
  for (const Wrong& each : cases) {
    const auto model = imported(each.header, each.donations);
    ASSERT_FALSE(model.ok()) << each.message;
    EXPECT_THAT(model.error().message, HasSubstr(each.message));
  }
}

}  // namespace
}  // namespace stitch::import
