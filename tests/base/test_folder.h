#pragma once

#include "base/file.h"

namespace stitch {

/// A folder of one test, which goes with what the test left there.
class TestFolder : public TemporaryFolder {
 public:
  TestFolder() : TemporaryFolder(*make("test")) {}

  operator const std::filesystem::path&() const { return path(); }
};

}  // namespace stitch
