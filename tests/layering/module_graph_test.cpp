#include "tests/layering/module_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stitch::layering {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

TEST(ModuleGraph, AHeaderAndItsSourceAreOneModule) {
  IncludeGraph modules;
  add_module(modules, "kernel/structure/items.cpp", "#include \"kernel/structure/items.h\"\n#include \"base/hash.h\"");
  add_module(modules, "kernel/structure/items.h", "#include <vector>\n#include \"kernel/index/axes.h\"");
  EXPECT_THAT(modules,
              ElementsAre(Pair("kernel/structure/items", UnorderedElementsAre("base/hash", "kernel/index/axes"))));
}

TEST(ModuleGraph, KnotsAreThoseThatReachOneAnother) {
  EXPECT_THAT(knots_of({{"a", {"b"}}, {"b", {"c"}}, {"c", {"b", "d"}}, {"d", {"outside"}}}),
              ElementsAre(ElementsAre("b", "c")));
  EXPECT_THAT(knots_of({{"a", {"b", "c"}}, {"b", {"c"}}, {"c", {}}}), IsEmpty());
  EXPECT_THAT(knots_of({{"a", {"b"}}, {"b", {"a"}}, {"c", {"d"}}, {"d", {"e"}}, {"e", {"c", "a"}}}),
              UnorderedElementsAre(ElementsAre("a", "b"), ElementsAre("c", "d", "e")));
}

TEST(ModuleGraph, RoomsAreSubfoldersAndSeeOnlyRoomsOfTheirFolder) {
  const IncludeGraph rooms = rooms_of({{"graph/simplify", {"graph/passes/fold"}},
                                       {"graph/passes/fold", {"graph/graph", "graph/reference/evaluate", "base/hash"}},
                                       {"graph/reference/evaluate", {}},
                                       {"search/trials/surrogate", {"graph/passes/fold"}}});
  EXPECT_THAT(rooms, ElementsAre(Pair("graph/passes", ElementsAre("graph/reference")),
                                 Pair("graph/reference", IsEmpty()), Pair("search/trials", IsEmpty())));
}

}  // namespace
}  // namespace stitch::layering
