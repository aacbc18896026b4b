#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "emulator/memory/buffer.h"

namespace stitch::emulator {

struct MemoryRegion;

/// What a buffer holds before anybody writes to it.
class Contents {
 public:
  /// Reads are findings until a byte is written.
  static Contents uninitialised() { return poison(std::byte{0xCD}); }
  /// As uninitialised, and every byte reads as `pattern` from the host: shows what a kernel left unwritten.
  static Contents poison(std::byte pattern);
  static Contents zero();
  /// A copy of `bytes`; the buffer must be at least as large, the rest counts as uninitialised.
  static Contents bytes(std::span<const std::byte> bytes);
  /// Initialised data, made page by page when touched.
  static Contents lazy(PageFiller filler);

 private:
  friend class Memory;
  enum class Kind : std::uint8_t { poison, zero, bytes, lazy };
  Kind kind_ = Kind::zero;
  std::byte pattern_{};
  std::span<const std::byte> bytes_;
  PageFiller filler_;
};

/// What a kernel may do with a buffer.
enum class Access : std::uint8_t {
  read_write,
  read_only,  ///< a write is a finding and changes nothing
};

/// A run of bytes inside a buffer.
struct ByteRange {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;

  bool operator==(const ByteRange&) const = default;
};

/// The simulated device memory, which outlives the launches that use it:
///
///   Memory memory;
///   Result<Buffer> input = memory.allocate("input", bytes, Contents::lazy(fill_page), Access::read_only);
///   Result<Buffer> output = memory.allocate("output", bytes);     // reads are findings until something is written
///   launch(program, config, ParameterBlock().add(*input).add(*output).bytes(), memory);
///   memory.read(output->address, into);
///   memory.written_ranges(*output);                               // by the latest launch
///
/// Hosts allocate, fill and read; the interpreter finds regions by address and checks accesses (global_shadow.h).
/// Buffers have names and are 256-byte aligned, each alone in a window of 64 GiB of a 64-bit address space, so that
/// everything around a buffer is red zone and a wild access can be traced to the nearest buffer.
///
/// Only touched pages take host memory. A page costs two and a half times its size, since every 32-byte sector carries
/// a record of which bytes are initialised, which the current launch wrote, and who touched it last; a page that is
/// read only costs its size.
///
/// Host calls must not overlap a launch that uses the memory, nor each other.
class Memory {
 public:
  static constexpr std::uint64_t page_bytes = buffer_page_bytes;

  Memory();
  ~Memory();
  Memory(Memory&&) noexcept;
  Memory& operator=(Memory&&) noexcept;

  /// A new buffer of `bytes` (0 is allowed: its address is valid, no access is). Errors: invalid_argument (more bytes
  /// of contents than of buffer; a read-only buffer whose contents leave bytes uninitialised), resource_exhausted (over
  /// 32 GiB, or the host refuses).
  Result<Buffer> allocate(std::string name, std::uint64_t bytes, Contents contents = Contents::uninitialised(),
                          Access access = Access::read_write);

  /// Host memory that kernels see at its own address, as a driver's pinned and managed memory is: bytes that the host
  /// writes count as initialised. `host` stays the caller's and must outlive the buffer. Errors: invalid_argument (an
  /// address that is none of a user program, or overlaps memory attached before), resource_exhausted.
  Result<Buffer> attach(std::string name, std::span<std::byte> host);

  /// Ends a buffer's life; later accesses to its addresses are out of bounds, and are said to be of a buffer that was
  /// freed. Error: not_found.
  Status free(const Buffer& buffer);

  [[nodiscard]] std::vector<Buffer> buffers() const;
  [[nodiscard]] std::string_view name(const Buffer& buffer) const;

  /// Host access by simulated address. Errors: invalid_argument, naming the nearest buffer.
  Status read(std::uint64_t address, std::span<std::byte> into) const;
  Status write(std::uint64_t address, std::span<const std::byte> from);
  /// Copies inside this memory; what is not initialised at the source is not at the target either. The ranges may
  /// overlap. Errors: invalid_argument, as above.
  Status copy(std::uint64_t to, std::uint64_t from, std::uint64_t bytes);

  /// Whether every byte of the range was initialised by its contents, the host or a kernel.
  [[nodiscard]] bool is_initialised(const Buffer& buffer, ByteRange range) const;

  /// The bytes of `buffer` that the latest launch wrote (stores, atomics, asynchronous copies), merged and ascending.
  [[nodiscard]] std::vector<ByteRange> written_ranges(const Buffer& buffer) const;
  /// Bytes of `buffer` that the latest launch read: where more than two blocks read from a sector, those of two of
  /// them.
  [[nodiscard]] std::vector<ByteRange> read_ranges(const Buffer& buffer) const;

  /// "12 bytes past the end of buffer "x" (4096 bytes)", "offset 16 of buffer "y" (64 bytes)", …
  [[nodiscard]] std::string describe(std::uint64_t address) const;

  // For the launch path.
  /// The live region whose window holds `address`, or null.
  [[nodiscard]] MemoryRegion* region_at(std::uint64_t address) const;
  /// Starts a new generation: what earlier launches wrote and touched is forgotten (not what is initialised).
  std::uint32_t begin_launch();
  /// The buffer that stands for a module's variable, kept between launches of the module's kernels; null before
  /// keep_module_variable.
  [[nodiscard]] const Buffer* module_variable(const Hash128& module, std::string_view name) const;
  void keep_module_variable(const Hash128& module, std::string_view name, const Buffer& buffer);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stitch::emulator
