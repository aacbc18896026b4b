#include "driver/state/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string>

namespace stitch::driver {
namespace {

constexpr std::string_view file_prefix = "stitch-device-memory-";

Error exhausted(std::string_view what) {
  return make_error(ErrorKind::resource_exhausted, "{}: {}", what, std::strerror(errno));
}

/// The device in the name of a file of ours; nothing for other files.
std::optional<CUdevice> device_of_file(int descriptor) {
  std::array<char, 128> link{};
  const std::string entry = fmt::format("/proc/self/fd/{}", descriptor);
  const ssize_t bytes = ::readlink(entry.c_str(), link.data(), link.size());
  const std::string_view name(link.data(), bytes < 0 ? 0 : static_cast<std::size_t>(bytes));
  const std::size_t at = name.find(file_prefix);
  if (at == std::string_view::npos || !name.starts_with("/memfd:")) return std::nullopt;
  const std::string_view number = name.substr(at + file_prefix.size());
  CUdevice device = 0;
  const auto parsed = std::from_chars(number.data(), number.data() + number.size(), device);
  return parsed.ec == std::errc() ? std::optional(device) : std::nullopt;
}

}  // namespace

Result<std::shared_ptr<MemoryFile>> MemoryFile::create(CUdevice device, std::size_t bytes) {
  const std::string name = fmt::format("{}{}", file_prefix, device);
  const int descriptor = ::memfd_create(name.c_str(), MFD_CLOEXEC);
  if (descriptor < 0) return exhausted("memfd_create");
  std::shared_ptr<MemoryFile> file(new MemoryFile(descriptor, device));
  if (::ftruncate(descriptor, static_cast<off_t>(bytes)) != 0) return exhausted("device memory");
  return file;
}

Result<std::shared_ptr<MemoryFile>> MemoryFile::import(int descriptor) {
  const auto device = device_of_file(descriptor);
  if (!device) {
    return make_error(ErrorKind::invalid_argument, "descriptor {} is none of an emulated device's memory", descriptor);
  }
  const int own = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (own < 0) return exhausted("a descriptor of device memory");
  return std::shared_ptr<MemoryFile>(new MemoryFile(own, *device));
}

MemoryFile::~MemoryFile() { ::close(descriptor_); }

std::size_t MemoryFile::bytes() const {
  struct stat status {};
  return ::fstat(descriptor_, &status) == 0 ? static_cast<std::size_t>(status.st_size) : 0;
}

std::uint64_t MemoryFile::id() const {
  struct stat status {};
  return ::fstat(descriptor_, &status) == 0 ? status.st_ino : 0;
}

Result<int> MemoryFile::duplicate() const {
  const int copy = ::fcntl(descriptor_, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return exhausted("a descriptor of device memory");
  return copy;
}

Result<std::size_t> MemoryFile::grow(std::size_t more) {
  const std::size_t before = bytes();
  if (::ftruncate(descriptor_, static_cast<off_t>(before + more)) != 0) return exhausted("device memory");
  return before;
}

void MemoryFile::discard(std::size_t offset, std::size_t bytes) const {
  static_cast<void>(::fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                                static_cast<off_t>(bytes)));
}

Result<std::byte*> MemoryFile::map(std::size_t offset, std::size_t bytes, std::byte* at) const {
  const int access = at == nullptr ? PROT_READ | PROT_WRITE : PROT_NONE;
  const int flags = MAP_SHARED | MAP_NORESERVE | (at == nullptr ? 0 : MAP_FIXED);
  void* start = ::mmap(at, bytes, access, flags, descriptor_, static_cast<off_t>(offset));
  if (start == MAP_FAILED) return exhausted("a mapping of device memory");
  return static_cast<std::byte*>(start);
}

Result<std::byte*> map_anonymous(std::size_t bytes) {
  void* start = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) return exhausted("host memory");
  return static_cast<std::byte*>(start);
}

std::shared_ptr<void> owned_mapping(std::byte* start, std::size_t bytes) {
  return {start, [bytes](void* mapped) { ::munmap(mapped, bytes); }};
}

}  // namespace stitch::driver
