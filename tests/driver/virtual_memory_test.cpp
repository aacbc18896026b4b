// Memory and addresses apart, and memory of several processes.
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <numeric>
#include <span>

#include "tests/driver/driver_fixture.h"

namespace stitch::driver::test {
namespace {

using testing::HasSubstr;

constexpr std::size_t granule = std::size_t{2} << 20;

class DriverVirtualMemory : public DriverFixture {
 protected:
  static CUmemAllocationProp properties(bool shared = false) {
    CUmemAllocationProp wanted{};
    wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    wanted.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    wanted.requestedHandleTypes = shared ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
    return wanted;
  }
  CUmemGenericAllocationHandle create(std::size_t bytes, bool shared = false) {
    const CUmemAllocationProp wanted = properties(shared);
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_CU(CU(cuMemCreate)(&handle, bytes, &wanted, 0)) << log();
    return handle;
  }
  CUdeviceptr reserve(std::size_t bytes, CUdeviceptr hint = 0) {
    CUdeviceptr address = 0;
    EXPECT_CU(CU(cuMemAddressReserve)(&address, bytes, 0, hint, 0)) << log();
    return address;
  }
  CUresult open(CUdeviceptr address, std::size_t bytes, CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
    const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, {0}}, flags};
    return CU(cuMemSetAccess)(address, bytes, &access, 1);
  }
  CUresult add_one(CUdeviceptr address, unsigned count) {
    if (add_one_ == nullptr) add_one_ = kernel(kernels, "add_one");
    void* parameters[] = {&address, &count};
    return CU(cuLaunchKernel)(add_one_, (count + 255) / 256, 1, 1, 256, 1, 1, 0, nullptr, parameters, nullptr);
  }
  CUfunction add_one_ = nullptr;
};

TEST_F(DriverVirtualMemory, NeighbouringMappingsAreOnePieceOfMemory) {
  const CUdeviceptr base = reserve(4 * granule);
  EXPECT_EQ(base % granule, 0);
  const auto first = create(granule), second = create(granule);
  ASSERT_CU(CU(cuMemMap)(base, granule, 0, first, 0));
  ASSERT_CU(open(base, granule));
  const std::vector<unsigned> ones(16, 1);
  ASSERT_CU(CU(cuMemcpyHtoD)(base + granule - 32, ones.data(), 32));
  // It grows in place: what was there stays, and a kernel runs over the border.
  ASSERT_CU(CU(cuMemMap)(base + granule, granule, 0, second, 0));
  ASSERT_CU(open(base + granule, granule));
  ASSERT_CU(CU(cuMemcpyHtoD)(base + granule, ones.data(), 32));
  ASSERT_CU(add_one(base + granule - 32, 16));
  EXPECT_EQ(read(base + granule - 32, 16), std::vector<unsigned>(16, 2));
  CUdeviceptr start = 0;
  std::size_t bytes = 0;
  ASSERT_CU(CU(cuMemGetAddressRange)(&start, &bytes, base + granule + 4));
  EXPECT_EQ(start, base);
  EXPECT_EQ(bytes, 2 * granule);
  EXPECT_EQ(log(), "");
  ASSERT_CU(CU(cuMemUnmap)(base, 2 * granule));
  EXPECT_CU(CU(cuMemRelease)(first));
  EXPECT_CU(CU(cuMemRelease)(second));
  EXPECT_CU(CU(cuMemAddressFree)(base, 4 * granule));
}

TEST_F(DriverVirtualMemory, OneMemoryAtTwoAddressesIsOneMemory) {
  const CUdeviceptr left = reserve(granule), right = reserve(granule, left + granule);
  const auto memory = create(granule);
  for (const CUdeviceptr at : {left, right}) {
    ASSERT_CU(CU(cuMemMap)(at, granule, 0, memory, 0));
    ASSERT_CU(open(at, granule));
  }
  // The handle may go; mappings keep what it named.
  EXPECT_CU(CU(cuMemRelease)(memory));
  EXPECT_EQ(CU(cuMemRelease)(memory), CUDA_ERROR_INVALID_VALUE);
  ASSERT_CU(CU(cuMemsetD32)(left, 41, 100));
  ASSERT_CU(add_one(right, 100));
  EXPECT_EQ(read(left, 100), std::vector<unsigned>(100, 42));
  CUmemGenericAllocationHandle again = 0;
  ASSERT_CU(CU(cuMemRetainAllocationHandle)(&again, reinterpret_cast<void*>(left + 12)));
  EXPECT_EQ(again, memory);
  EXPECT_CU(CU(cuMemRelease)(again));
  for (const CUdeviceptr at : {left, right}) {
    ASSERT_CU(CU(cuMemUnmap)(at, granule));
    EXPECT_CU(CU(cuMemAddressFree)(at, granule));
  }
}

TEST_F(DriverVirtualMemory, WhatHasNoAccessIsOutOfBounds) {
  const CUdeviceptr base = reserve(2 * granule);
  const auto memory = create(granule);
  ASSERT_CU(CU(cuMemMap)(base, granule, 0, memory, 0));
  unsigned word = 1;
  EXPECT_EQ(CU(cuMemcpyHtoD)(base, &word, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(log(), HasSubstr("is reserved, but has no memory"));
  ASSERT_CU(open(base, granule));
  EXPECT_CU(CU(cuMemcpyHtoD)(base, &word, 4));
  unsigned long long flags = 0;
  const CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  ASSERT_CU(CU(cuMemGetAccess)(&flags, &here, base));
  EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  ASSERT_CU(add_one(base + granule - 4, 2));
  EXPECT_EQ(CU(cuCtxSynchronize)(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(DriverVirtualMemory, MisuseIsRefusedAndNamed) {
  const CUdeviceptr base = reserve(2 * granule);
  const auto memory = create(granule);
  const CUmemAllocationProp wanted = properties();
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  EXPECT_EQ(CU(cuMemCreate)(&handle, 4096, &wanted, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuMemCreate)(&handle, std::size_t{1} << 45, &wanted, 0), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(CU(cuMemAddressReserve)(&address, 4096, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuMemMap)(base + 4096, granule, 0, memory, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuMemMap)(base + granule, 2 * granule, 0, memory, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuMemMap)(base + 2 * granule, granule, 0, memory, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(log(), HasSubstr("not reserved"));
  EXPECT_EQ(open(base, granule), CUDA_ERROR_INVALID_VALUE);
  ASSERT_CU(CU(cuMemMap)(base, granule, 0, memory, 0));
  EXPECT_EQ(CU(cuMemMap)(base, granule, 0, memory, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(log(), HasSubstr("memory is mapped there"));
  EXPECT_EQ(open(base, granule, CU_MEM_ACCESS_FLAGS_PROT_READ), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(CU(cuMemAddressFree)(base, 2 * granule), CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(log(), HasSubstr("memory is still mapped there"));
  EXPECT_EQ(CU(cuMemUnmap)(base, 2 * granule), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuMemFree)(base), CUDA_ERROR_INVALID_VALUE);
  int descriptor = -1;
  EXPECT_EQ(CU(cuMemExportToShareableHandle)(&descriptor, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuMemImportFromShareableHandle)(&handle, nullptr, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(log(), HasSubstr("none of an emulated device's memory"));
  ASSERT_CU(CU(cuMemUnmap)(base, granule));
  EXPECT_CU(CU(cuMemRelease)(memory));
  EXPECT_CU(CU(cuMemAddressFree)(base, 2 * granule));
}

TEST_F(DriverVirtualMemory, FreeMemoryGoesAndComes) {
  std::size_t before = 0, during = 0, after = 0, total = 0;
  ASSERT_CU(CU(cuMemGetInfo)(&before, &total));
  const auto memory = create(4 * granule);
  ASSERT_CU(CU(cuMemGetInfo)(&during, &total));
  ASSERT_CU(CU(cuMemRelease)(memory));
  ASSERT_CU(CU(cuMemGetInfo)(&after, &total));
  EXPECT_EQ(before - during, 4 * granule);
  EXPECT_EQ(after, before);
}

/// Sends a descriptor, and bytes, to whoever has the other end.
void send_descriptor(int socket, int descriptor, std::span<const std::byte> bytes) {
  iovec part = {const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  ASSERT_EQ(::sendmsg(socket, &message, 0), static_cast<ssize_t>(bytes.size()));
}

int receive_descriptor(int socket, std::span<std::byte> bytes) {
  iovec part = {bytes.data(), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  int descriptor = -1;
  if (::recvmsg(socket, &message, 0) <= 0 || CMSG_FIRSTHDR(&message) == nullptr) return descriptor;
  std::memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptor);
  return descriptor;
}

/// The other process, which shares nothing with this one but a socket: it was forked before the driver began. Takes a
/// pool and a pointer of it, adds one to 64 words by a kernel, and says how that went.
class DriverSharedPool : public DriverVirtualMemory {
 protected:
  void SetUp() override {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
    child_ = ::fork();
    if (child_ == 0) ::_exit(serve(ends[1]));
    socket_ = ends[0];
    DriverVirtualMemory::SetUp();
  }
  int serve(int socket) {
    DriverVirtualMemory::SetUp();
    CUmemPoolPtrExportData data{};
    const int descriptor = receive_descriptor(socket, std::as_writable_bytes(std::span(&data, 1)));
    CUmemoryPool pool = nullptr;
    CUdeviceptr words = 0;
    auto* handle = reinterpret_cast<void*>(std::intptr_t{descriptor});
    if (CU(cuMemPoolImportFromShareableHandle)(&pool, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) != 0)
      return 2;
    if (CU(cuMemAllocFromPoolAsync)(&words, 64, pool, nullptr) != CUDA_ERROR_INVALID_VALUE) return 3;
    if (CU(cuMemPoolImportPointer)(&words, pool, &data) != CUDA_SUCCESS) return 4;
    if (add_one(words, 64) != CUDA_SUCCESS || CU(cuCtxSynchronize)() != CUDA_SUCCESS) return 5;
    if (CU(cuMemFreeAsync)(words, nullptr) != CUDA_SUCCESS || CU(cuCtxSynchronize)() != CUDA_SUCCESS) return 6;
    data.reserved[8] ^= 1;
    if (CU(cuMemPoolImportPointer)(&words, pool, &data) != CUDA_ERROR_INVALID_VALUE) return 7;
    return 0;
  }
  pid_t child_ = 0;
  int socket_ = -1;
};

TEST_F(DriverSharedPool, AnotherProcessUsesTheSameMemory) {
  CUmemPoolProps wanted{};
  wanted.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  wanted.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemoryPool pool = nullptr;
  ASSERT_CU(CU(cuMemPoolCreate)(&pool, &wanted)) << log();
  CUdeviceptr first = 0, words = 0;
  ASSERT_CU(CU(cuMemAllocFromPoolAsync)(&first, 100, pool, nullptr));
  ASSERT_CU(CU(cuMemAllocFromPoolAsync)(&words, 256, pool, nullptr));
  ASSERT_CU(CU(cuMemsetD32)(first, 5, 25));
  ASSERT_CU(CU(cuMemsetD32)(words, 7, 64));
  ASSERT_CU(CU(cuCtxSynchronize)());
  int descriptor = -1;
  ASSERT_CU(CU(cuMemPoolExportToShareableHandle)(&descriptor, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  CUmemPoolPtrExportData data{};
  EXPECT_EQ(CU(cuMemPoolExportPointer)(&data, words + 4), CUDA_ERROR_INVALID_VALUE);
  ASSERT_CU(CU(cuMemPoolExportPointer)(&data, words));
  send_descriptor(socket_, descriptor, std::as_bytes(std::span(&data, 1)));
  int status = -1;
  ASSERT_EQ(::waitpid(child_, &status, 0), child_);
  EXPECT_EQ(status, 0) << "it ended with " << WEXITSTATUS(status);
  EXPECT_EQ(read(words, 64), std::vector<unsigned>(64, 8));
  EXPECT_EQ(read(first, 25), std::vector<unsigned>(25, 5));
  ::close(descriptor);
  EXPECT_CU(CU(cuMemFreeAsync)(words, nullptr));
  EXPECT_CU(CU(cuMemFreeAsync)(first, nullptr));
  EXPECT_CU(CU(cuMemPoolDestroy)(pool));
}

TEST_F(DriverVirtualMemory, PoolsOfTheHostAndOfManagedMemoryAreReachedFromBothSides) {
  for (const auto type : {CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_ALLOCATION_TYPE_MANAGED}) {
    CUmemPoolProps wanted{};
    wanted.allocType = type;
    wanted.location.type = CU_MEM_LOCATION_TYPE_HOST;
    CUmemoryPool pool = nullptr;
    ASSERT_CU(CU(cuMemPoolCreate)(&pool, &wanted)) << log();
    CUdeviceptr words = 0;
    ASSERT_CU(CU(cuMemAllocFromPoolAsync)(&words, 400, pool, nullptr));
    ASSERT_CU(CU(cuCtxSynchronize)());
    const std::span host(reinterpret_cast<unsigned*>(words), 100);
    std::iota(host.begin(), host.end(), 0U);
    ASSERT_CU(add_one(words, 100));
    ASSERT_CU(CU(cuCtxSynchronize)());
    EXPECT_EQ(host[99], 100U);
    CUmemorytype kind{};
    ASSERT_CU(CU(cuPointerGetAttribute)(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, words));
    EXPECT_EQ(kind, type == CU_MEM_ALLOCATION_TYPE_MANAGED ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST);
    ASSERT_CU(CU(cuMemFreeAsync)(words, nullptr));
    ASSERT_CU(CU(cuCtxSynchronize)());
    EXPECT_CU(CU(cuMemPoolDestroy)(pool));
  }
  EXPECT_EQ(log(), "");
}

TEST_F(DriverVirtualMemory, WhatWasAdvisedOfManagedMemoryIsToldOfWholeRanges) {
  constexpr std::size_t bytes = std::size_t{1} << 20;
  CUdeviceptr memory = 0;
  ASSERT_CU(CU(cuMemAllocManaged)(&memory, bytes, CU_MEM_ATTACH_GLOBAL));
  const CUmemLocation device = {CU_MEM_LOCATION_TYPE_DEVICE, {0}}, host = {CU_MEM_LOCATION_TYPE_HOST, {0}};
  const auto tell = [&](CUmem_range_attribute attribute, std::size_t count) {
    int value = -99;
    EXPECT_CU(CU(cuMemRangeGetAttribute)(&value, sizeof value, attribute, memory, count));
    return value;
  };
  EXPECT_EQ(tell(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, bytes), 0);
  EXPECT_EQ(tell(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, bytes), CU_DEVICE_INVALID);
  ASSERT_CU(CU(cuMemAdvise)(memory, bytes / 2, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
  EXPECT_EQ(tell(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, bytes / 2), 1);
  EXPECT_EQ(tell(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, bytes), 0);
  ASSERT_CU(CU(cuMemAdvise)(memory, bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host));
  EXPECT_EQ(tell(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, bytes), CU_DEVICE_CPU);
  EXPECT_EQ(tell(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE, bytes), CU_MEM_LOCATION_TYPE_HOST);
  ASSERT_CU(CU(cuMemAdvise)(memory, bytes, CU_MEM_ADVISE_SET_ACCESSED_BY, device));
  std::array<int, 2> accessors{};
  ASSERT_CU(CU(cuMemRangeGetAttribute)(accessors.data(), sizeof accessors, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, memory,
                                       bytes));
  EXPECT_EQ(accessors, (std::array<int, 2>{0, CU_DEVICE_INVALID}));
  std::array<CUdeviceptr, 2> parts = {memory, memory + bytes / 2};
  std::array<std::size_t, 2> sizes = {bytes / 2, bytes / 2}, begins = {0, 1};
  std::array<CUmemLocation, 2> places = {device, host};
  ASSERT_CU(CU(cuMemPrefetchBatchAsync)(parts.data(), sizes.data(), 2, places.data(), begins.data(), 2, 0, nullptr));
  EXPECT_EQ(tell(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, bytes / 2), 0);
  EXPECT_EQ(tell(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, bytes), CU_DEVICE_INVALID);
  begins = {1, 0};
  EXPECT_EQ(CU(cuMemPrefetchBatchAsync)(parts.data(), sizes.data(), 2, places.data(), begins.data(), 2, 0, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuMemPrefetchAsync)(memory, 2 * bytes, device, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuMemAdvise)(memory, bytes, CU_MEM_ADVISE_SET_ACCESSED_BY, {CU_MEM_LOCATION_TYPE_DEVICE, {9}}),
            CUDA_ERROR_INVALID_DEVICE);
  EXPECT_CU(CU(cuMemFree)(memory));
}

}  // namespace
}  // namespace stitch::driver::test
