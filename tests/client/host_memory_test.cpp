#include "client/host_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <new>

#include "api/program_document.h"

namespace stitch::client {
namespace {

TEST(HostMemory, IsAlignedAndAsLargeAsAskedFor) {
  for (const std::int64_t bytes : {0, 1, 255, 256, 1000}) {
    const HostMemory memory(bytes);
    EXPECT_EQ(std::ssize(memory.span()), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.span().data()) % api::arena_alignment, 0U);
  }
}

TEST(HostMemory, ThrowsWhenThereIsNone) { EXPECT_THROW(HostMemory(std::int64_t{1} << 60), std::bad_alloc); }

}  // namespace
}  // namespace stitch::client
