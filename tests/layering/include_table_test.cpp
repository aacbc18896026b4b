#include "tests/layering/include_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stitch::layering {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

constexpr const char* small_table = R"(Text before.

| folder | holds | may include |
|---|---|---|
| `base/` | results | – |
| `graph/` | the IR | base |
| `db/` | records | graph, base |
| `daemon/` | jobs | all but client, cli |
| `client/` | fetching | `daemon/protocol.h`, base |
| `cli/` | commands | all |

| other | table | – |
)";

TEST(IncludeTable, ReadsFoldersHeadersAllAndAllBut) {
  const auto table = parse_include_table(small_table);
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_THAT(table->folders, ElementsAre("base", "graph", "db", "daemon", "client", "cli"));
  EXPECT_THAT(
      table->allowed,
      UnorderedElementsAre(Pair("base", IsEmpty()), Pair("graph", ElementsAre("base")),
                           Pair("db", ElementsAre("base", "graph")), Pair("daemon", ElementsAre("base", "db", "graph")),
                           Pair("client", ElementsAre("base", "daemon/protocol.h")),
                           Pair("cli", ElementsAre("base", "client", "daemon", "db", "graph"))));
  EXPECT_THAT(find_cycle(*table), IsEmpty());
}

TEST(IncludeTable, TellsWhatIsWrongWithATable) {
  const std::string head = "| folder | holds | may include |\n|---|---|---|\n";
  const struct {
    std::string markdown;
    const char* message;
  } cases[] = {
      {"no table", "no table 'folder | holds | may include'"},
      {head + "| `base/` | x | grpah |\n", "row of base/: 'grpah' is no folder of the table"},
      {head + "| `base/` | x | y/z.h |\n", "row of base/: 'y/z.h' is no folder of the table"},
      {head + "| `base/` | x | – |\n| `base/` | x | – |\n", "two rows for base/"},
      {head + "| base | x | – |\n", "not a row of the include table: | base | x | – |"},
  };
  for (const auto& [markdown, message] : cases) {
    const auto table = parse_include_table(markdown);
    ASSERT_FALSE(table) << markdown;
    EXPECT_THAT(table.error().message, HasSubstr(message));
  }
}

TEST(IncludeTable, FindsRowsThatPointBack) {
  const auto table = parse_include_table(
      "| folder | holds | may include |\n|---|---|---|\n"
      "| `cli/` | x | a |\n| `a/` | x | b/one.h |\n| `b/` | x | c |\n| `c/` | x | a |\n");
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_THAT(find_cycle(*table), ElementsAre("a", "b", "c", "a"));
}

TEST(IncludeTable, FindsDirectivesButNotComments) {
  EXPECT_THAT(includes_of("#include \"base/hash.h\"\n  # include <vector>  // why\n// #include \"a/b.h\"\n"
                          "/* text\n#include \"c/d.h\"\n*/\n#include \"e/f.h\"\n"),
              ElementsAre(Include{1, true, "base/hash.h"}, Include{2, false, "vector"}, Include{7, true, "e/f.h"}));
}

TEST(IncludeTable, ReadsWhatCMakeLinks) {
  EXPECT_THAT(parse_layers("stitch_layer(base LINKS fmt::fmt)\nstitch_layer(graph LINKS stitch::base\n  TBB::tbb)\n"
                           "stitch_layer(db LINKS stitch::graph stitch::base)\n"),
              UnorderedElementsAre(Pair("base", IsEmpty()), Pair("graph", ElementsAre("base")),
                                   Pair("db", ElementsAre("base", "graph"))));
}

TEST(IncludeTable, RefusesIncludes) {
  const auto table = parse_include_table(small_table);
  ASSERT_TRUE(table);
  const struct {
    const char* folder;
    const char* source;
    const char* refusal;  ///< empty: fine
  } cases[] = {
      {"graph", "#include \"graph/op.h\"", ""},
      {"graph", "#include \"base/hash.h\"", ""},
      {"graph", "\n#include \"db/records.h\"", "graph/x.cpp:2 includes db/records.h; graph/ may include {base}"},
      {"client", "#include \"daemon/protocol.h\"", ""},
      {"client", "#include \"daemon/jobs.h\"",
       "client/x.cpp:1 includes daemon/jobs.h; client/ may include {base, daemon/protocol.h}"},
      {"daemon", "#include \"cli/main.h\"", "includes cli/main.h; daemon/ may include {base, db, graph}"},
      {"graph", "#include \"op.h\"", "graph/x.cpp:1 includes \"op.h\": name it from the top folder"},
      {"db", "#include <sqlite3.h>", ""},
      {"graph", "#include <sqlite3.h>", "graph/x.cpp:1 includes <sqlite3.h>, which only {db} may"},
      {"daemon", "#include <cupti_activity.h>",
       "daemon/x.cpp:1 includes <cupti_activity.h>, which only {profiler} may"},
  };
  for (const auto& [folder, source, refusal] : cases) {
    const auto refused = refused_includes(*table, folder, std::string(folder) + "/x.cpp", source);
    if (*refusal == '\0') {
      EXPECT_THAT(refused, IsEmpty()) << source;
    } else {
      EXPECT_THAT(refused, ElementsAre(HasSubstr(refusal))) << source;
    }
  }
}

}  // namespace
}  // namespace stitch::layering
