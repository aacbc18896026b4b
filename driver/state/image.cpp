#include "driver/state/image.h"

#include <elf.h>
#include <zstd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>

#include <fmt/format.h>

#include "base/hash.h"

namespace stitch::driver {
namespace {

constexpr std::uint32_t fatbin_magic = 0xBA55ED50;
constexpr std::uint32_t wrapper_magic = 0x466243B1;  // __fatBinC_Wrapper_t, fatbinary_section.h

/// fatbinary's container: a header, and entries of PTX and of machine code behind it.
struct FatbinHeader {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t header_bytes;
  std::uint64_t bytes;  ///< of the entries
};
struct FatbinEntry {
  std::uint16_t kind;  ///< 1: PTX, 2: machine code
  std::uint16_t version;
  std::uint32_t header_bytes;
  std::uint64_t bytes;  ///< of the payload, padded
  std::uint32_t compressed_bytes;
  std::uint32_t options_offset;
  std::uint16_t minor, major;
  std::uint32_t architecture;
  std::uint32_t name_offset, name_bytes;
  std::uint64_t flags;
  std::uint64_t reserved;
  std::uint64_t uncompressed_bytes;
};
constexpr std::uint16_t ptx_kind = 1;
constexpr std::uint64_t lz4_flag = 0x2000, zstd_flag = 0x8000;

struct Wrapper {
  std::uint32_t magic, version;
  const void* data;
  const void* names;
};

/// A block of LZ4 (lz4_Block_format.md): literals and copies of what was written before, in turn. Empty when damaged.
std::string expand_lz4(const unsigned char* from, std::size_t bytes, std::size_t expanded) {
  std::string text;
  const unsigned char* end = from + bytes;
  const auto length = [&](std::size_t nibble) {
    if (nibble != 15) return nibble;
    for (unsigned char more = 255; more == 255 && from < end; nibble += more) more = *from++;
    return nibble;
  };
  while (from < end) {
    const unsigned token = *from++;
    const std::size_t literals = length(token >> 4);
    if (literals > static_cast<std::size_t>(end - from)) return {};
    text.append(reinterpret_cast<const char*>(from), literals);
    from += literals;
    if (end - from < 2) break;
    const std::size_t offset = from[0] | from[1] << 8;
    from += 2;
    const std::size_t copied = length(token & 15) + 4;
    if (offset == 0 || offset > text.size() || text.size() + copied > expanded) return {};
    for (std::size_t i = 0; i < copied; ++i) text += text[text.size() - offset];
  }
  return text;
}

std::string payload_of(const FatbinEntry& entry, const unsigned char* payload) {
  if ((entry.flags & zstd_flag) != 0) {
    std::string text(entry.uncompressed_bytes, '\0');
    const std::size_t size = ZSTD_decompress(text.data(), text.size(), payload, entry.compressed_bytes);
    if (ZSTD_isError(size) != 0) return {};
    text.resize(size);
    return text;
  }
  if ((entry.flags & lz4_flag) != 0) return expand_lz4(payload, entry.compressed_bytes, entry.uncompressed_bytes);
  return {reinterpret_cast<const char*>(payload), entry.bytes};
}

/// The PTX of the highest architecture.
ImageText text_of_fatbin(const unsigned char* image) {
  FatbinHeader header{};
  std::memcpy(&header, image, sizeof header);
  ImageText found{CUDA_ERROR_NO_BINARY_FOR_GPU, {}, "the fat binary holds no PTX, which an emulated device needs"};
  std::uint32_t best = 0;
  for (std::uint64_t at = header.header_bytes; at + sizeof(FatbinEntry) <= header.header_bytes + header.bytes;) {
    FatbinEntry entry{};
    std::memcpy(&entry, image + at, sizeof entry);
    if (entry.header_bytes == 0) break;
    if (entry.kind == ptx_kind && entry.architecture >= best) {
      std::string text = payload_of(entry, image + at + entry.header_bytes);
      text = text.c_str();  // up to the padding
      if (text.empty()) return {CUDA_ERROR_INVALID_IMAGE, {}, "the PTX in the fat binary is damaged"};
      best = entry.architecture;
      found = {CUDA_SUCCESS, std::move(text), {}};
    }
    at += entry.header_bytes + entry.bytes;
  }
  return found;
}

/// Where an ELF file ends: behind its section headers, or the last of its sections or segments.
std::size_t elf_bytes(const unsigned char* image) {
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof header);
  std::size_t end = std::max(header.e_shoff + std::uint64_t{header.e_shnum} * header.e_shentsize,
                             header.e_phoff + std::uint64_t{header.e_phnum} * header.e_phentsize);
  for (int i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, image + header.e_shoff + std::size_t{header.e_shentsize} * i, sizeof section);
    if (section.sh_type != SHT_NOBITS) end = std::max<std::size_t>(end, section.sh_offset + section.sh_size);
  }
  return end;
}

ImageText text_of_cubin(const unsigned char* image) {
  const char* folder = std::getenv("STITCH_EMULATED_PTX");
  if (folder != nullptr && *folder != '\0') {
    std::ifstream file(std::string(folder) + "/" + ptx_name(image));
    if (file) {
      std::ostringstream text;
      text << file.rdbuf();
      return {CUDA_SUCCESS, text.str(), {}};
    }
  }
  return {CUDA_ERROR_NO_BINARY_FOR_GPU,
          {},
          "the image is machine code (a cubin); an emulated device needs PTX: compile for a virtual architecture "
          "(compute_90), load the PTX, or run the program by `stitch emulate --run`, which keeps the PTX of what NVRTC "
          "compiles"};
}

}  // namespace

std::string ptx_name(const void* cubin) {
  const std::size_t bytes = elf_bytes(static_cast<const unsigned char*>(cubin));
  return hash_bytes(std::span(static_cast<const std::byte*>(cubin), bytes)).hex() + ".ptx";
}

ImageText text_of_image(const void* image) {
  const auto* bytes = static_cast<const unsigned char*>(image);
  std::uint32_t magic = 0;
  std::memcpy(&magic, bytes, 4);
  if (magic == wrapper_magic) {
    Wrapper wrapper{};
    std::memcpy(&wrapper, bytes, sizeof wrapper);
    return text_of_image(wrapper.data);
  }
  if (magic == fatbin_magic) return text_of_fatbin(bytes);
  if (std::memcmp(bytes, ELFMAG, SELFMAG) == 0) return text_of_cubin(bytes);
  std::string text(static_cast<const char*>(image));
  if (text.find(".version") != std::string::npos && text.find(".target") != std::string::npos) {
    return {CUDA_SUCCESS, std::move(text), {}};
  }
  return {CUDA_ERROR_INVALID_IMAGE, {}, "the image is neither PTX nor a fat binary nor a cubin"};
}

}  // namespace stitch::driver
