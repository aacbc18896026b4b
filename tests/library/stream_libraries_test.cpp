#include "library/stream_libraries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace stitch::library {
namespace {

using testing::ElementsAre;

TEST(StreamLibraries, AVariableNamesOneFileAndNoOther) {
  ::unsetenv("STITCH_CUBLAS_LT");
  ::unsetenv("STITCH_CUDNN");
  EXPECT_THAT(StreamLibraries().cublas_lt, ElementsAre("libcublasLt.so.13", "libcublasLt.so.12"));
  EXPECT_THAT(StreamLibraries().cudnn, ElementsAre("libcudnn.so.9"));
  ::setenv("STITCH_CUBLAS_LT", "/opt/mine.so", 1);
  ::setenv("STITCH_CUDNN", "/opt/convolutions.so", 1);
  EXPECT_THAT(StreamLibraries().cublas_lt, ElementsAre("/opt/mine.so"));
  EXPECT_THAT(StreamLibraries().cudnn, ElementsAre("/opt/convolutions.so"));
  EXPECT_FALSE(StreamLibraries().are_there());
  ::setenv("STITCH_CUDNN", "", 1);
  EXPECT_THAT(StreamLibraries().cudnn, ElementsAre("libcudnn.so.9"));
  ::unsetenv("STITCH_CUBLAS_LT");
  ::unsetenv("STITCH_CUDNN");
}

}  // namespace
}  // namespace stitch::library
