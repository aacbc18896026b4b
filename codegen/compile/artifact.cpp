#include "codegen/compile/artifact.h"

#include <zstd.h>

#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

namespace stitch::codegen {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "the container is little-endian");

constexpr std::array<char, 8> magic = {'S', 'T', 'I', 'T', 'C', 'H', 'K', '\n'};
constexpr std::uint32_t format_version = 1;
constexpr std::uint64_t raw_limit = std::uint64_t{1} << 30;  ///< what a damaged length may make us allocate
constexpr int compression_level = 3;

struct Header {
  std::array<char, 8> magic{};
  std::uint32_t version = 0;
  std::uint32_t reserved = 0;
  Hash128 key;
  Hash128 checksum;  ///< of the compressed payload
  std::uint64_t compressed_bytes = 0;
  std::uint64_t raw_bytes = 0;
};
static_assert(sizeof(Header) == 64);

constexpr std::array<std::pair<const char*, int ResourceUsage::*>, 9> usage_fields = {{
    {"registers", &ResourceUsage::registers},
    {"barriers", &ResourceUsage::barriers},
    {"shared_bytes", &ResourceUsage::shared_bytes},
    {"stack_bytes", &ResourceUsage::stack_bytes},
    {"cumulative_stack_bytes", &ResourceUsage::cumulative_stack_bytes},
    {"spill_store_bytes", &ResourceUsage::spill_store_bytes},
    {"spill_load_bytes", &ResourceUsage::spill_load_bytes},
    {"constant_bytes", &ResourceUsage::constant_bytes},
    {"global_bytes", &ResourceUsage::global_bytes},
}};

std::vector<std::uint8_t> to_cbor(const CompiledKernel& kernel) {
  json entries = json::array();
  for (const EntryUsage& entry : kernel.entries) {
    json row = {{"entry", entry.entry}};
    for (const auto& [name, member] : usage_fields) row[name] = entry.usage.*member;
    entries.push_back(std::move(row));
  }
  const json value = {
      {"ptx", kernel.ptx},
      {"cubin", json::binary(std::vector<std::uint8_t>(kernel.cubin.begin(), kernel.cubin.end()))},
      {"entries", std::move(entries)},
      {"log", kernel.log},
      {"seconds", kernel.seconds},
      {"toolkit", kernel.toolkit},
      {"architecture", kernel.architecture},
  };
  return json::to_cbor(value);
}

CompiledKernel from_json(const json& value) {
  CompiledKernel kernel;
  value.at("ptx").get_to(kernel.ptx);
  const json::binary_t& cubin = value.at("cubin").get_binary();
  kernel.cubin.assign(cubin.begin(), cubin.end());
  for (const json& row : value.at("entries")) {
    EntryUsage& entry = kernel.entries.emplace_back();
    row.at("entry").get_to(entry.entry);
    for (const auto& [name, member] : usage_fields) row.at(name).get_to(entry.usage.*member);
  }
  kernel.resources = maximum_usage(kernel.entries);
  value.at("log").get_to(kernel.log);
  value.at("seconds").get_to(kernel.seconds);
  value.at("toolkit").get_to(kernel.toolkit);
  value.at("architecture").get_to(kernel.architecture);
  return kernel;
}

template <class... Args>
Error corrupt(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorKind::corrupt, "artifact: {}", fmt::format(format, std::forward<Args>(args)...));
}

/// The header, once everything that it says of itself and of the payload holds.
Result<Header> checked_header(std::string_view bytes, const Hash128& key) {
  Header header;
  if (bytes.size() < sizeof header) return corrupt("{} bytes are no header", bytes.size());
  std::memcpy(&header, bytes.data(), sizeof header);
  const std::string_view payload = bytes.substr(sizeof header);
  if (header.magic != magic) return corrupt("it does not begin as one");
  if (header.version != format_version) {
    return make_error(ErrorKind::version_mismatch, "artifact: format {}; this program reads {}", header.version,
                      format_version);
  }
  if (header.key != key) return corrupt("its key is {}, not {}", header.key.hex(), key.hex());
  if (header.reserved != 0 || header.raw_bytes > raw_limit) return corrupt("its header is damaged");
  if (header.compressed_bytes != payload.size()) {
    return corrupt("{} bytes of payload, not {}", payload.size(), header.compressed_bytes);
  }
  if (header.checksum != hash_bytes(payload)) return corrupt("its checksum differs");
  return header;
}

}  // namespace

std::string encode_artifact(const CompiledKernel& kernel) {
  const std::vector<std::uint8_t> raw = to_cbor(kernel);
  std::string bytes(sizeof(Header) + ZSTD_compressBound(raw.size()), '\0');
  const std::size_t size = ZSTD_compress(bytes.data() + sizeof(Header), bytes.size() - sizeof(Header), raw.data(),
                                         raw.size(), compression_level);
  bytes.resize(sizeof(Header) + size);  // it cannot fail into a buffer of the bound's size
  const Header header = {
      magic, format_version, 0, kernel.key, hash_bytes(std::string_view(bytes).substr(sizeof(Header))),
      size,  raw.size()};
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

Result<CompiledKernel> decode_artifact(std::string_view bytes, const Hash128& key) {
  STITCH_ASSIGN(const Header header, checked_header(bytes, key));
  const std::string_view payload = bytes.substr(sizeof header);
  std::vector<std::uint8_t> raw(header.raw_bytes);
  const std::size_t size = ZSTD_decompress(raw.data(), raw.size(), payload.data(), payload.size());
  if (ZSTD_isError(size) != 0 || size != raw.size()) return corrupt("its payload cannot be decompressed");
  const json value = json::from_cbor(raw, true, false);
  if (value.is_discarded()) return corrupt("its payload is no CBOR");
  try {
    CompiledKernel kernel = from_json(value);
    kernel.key = key;
    return kernel;
  } catch (const json::exception& exception) {
    return corrupt("{}", exception.what());
  }
}

}  // namespace stitch::codegen
