#include "profiler/measure/recording.h"

#include <zstd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "graph/codec/codec.h"
#include "profiler/device/device_document.h"

namespace stitch::profiler {
namespace {

using Json = nlohmann::json;

static_assert(std::endian::native == std::endian::little, "the container is little-endian");

constexpr std::array<char, 8> magic = {'S', 'T', 'I', 'T', 'C', 'H', 'R', '\n'};
constexpr int compression_level = 9;

struct Header {
  std::array<char, 8> magic{};
  std::uint32_t version = 0;
  std::uint32_t reserved = 0;
  Hash128 checksum;  ///< of the compressed payload
  std::uint64_t compressed_bytes = 0;
  std::uint64_t raw_bytes = 0;
};
static_assert(sizeof(Header) == 48);

constexpr std::array<std::pair<std::string_view, ErrorKind>, 5> failures = {{{"constraint", ErrorKind::constraint},
                                                                             {"compile", ErrorKind::compile},
                                                                             {"timeout", ErrorKind::timeout},
                                                                             {"runtime", ErrorKind::runtime},
                                                                             {"correctness", ErrorKind::correctness}}};
constexpr std::string_view right = "correct";

// ---- writing ---------------------------------------------------------------------------------------------------

Json binary(std::string_view bytes) { return Json::binary(std::vector<std::uint8_t>(bytes.begin(), bytes.end())); }

Json binary(const Hash128& hash) {
  std::string bytes(16, '\0');
  std::memcpy(bytes.data(), &hash.high, 8);
  std::memcpy(bytes.data() + 8, &hash.low, 8);
  return binary(bytes);
}

/// A row of the candidates' table; its columns are in docs/recording-format.md.
Json row_of(const RecordedCandidate& candidate) {
  return Json::array({binary(candidate.schedule), candidate.predicted_us,
                      candidate.failure ? to_string(candidate.failure->kind) : right,
                      candidate.failure ? candidate.failure->message : "", candidate.registers, candidate.shared_bytes,
                      candidate.spill_bytes, candidate.median, candidate.noise, candidate.samples, candidate.features});
}

Json document_of(const RecordedKernel& kernel) {
  Json rows = Json::array();
  for (const RecordedCandidate& candidate : kernel.candidates) rows.push_back(row_of(candidate));
  return {{"key", binary(kernel.key)},     {"name", kernel.name},          {"occurrences", kernel.occurrences},
          {"graph", binary(kernel.graph)}, {"legal", kernel.legal},        {"whole", kernel.whole},
          {"wanted", kernel.wanted},       {"candidates", std::move(rows)}};
}

Json document_of(const Recording& recording) {
  Json kernels = Json::array();
  for (const RecordedKernel& kernel : recording.kernels) kernels.push_back(document_of(kernel));
  return {{"tool", recording.tool},
          {"generator", recording.generator},
          {"target", recording.target},
          {"architecture", recording.architecture},
          {"toolkit", recording.toolkit},
          {"scorer", recording.scorer},
          {"verification", recording.verification},
          {"device", to_document(recording.device)},
          {"kind", to_string(recording.kind)},
          {"unit", recording.unit},
          {"method", recording.method},
          {"cold_l2", recording.cold_l2},
          {"when_us", recording.when_us},
          {"feature_names", recording.feature_names},
          {"kernels", std::move(kernels)}};
}

// ---- reading ---------------------------------------------------------------------------------------------------

/// What is wrong with a document, thrown within this file only.
struct Wrong : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::string bytes_from(const Json& value) {
  const Json::binary_t& bytes = value.get_binary();
  return {bytes.begin(), bytes.end()};
}

Hash128 hash_from(const Json& value) {
  const std::string bytes = bytes_from(value);
  if (bytes.size() != 16) throw Wrong(fmt::format("a hash of {} bytes", bytes.size()));
  Hash128 hash;
  std::memcpy(&hash.high, bytes.data(), 8);
  std::memcpy(&hash.low, bytes.data() + 8, 8);
  return hash;
}

/// A number that is finite and not negative.
double amount_from(const Json& value) {
  const double number = value.get<double>();
  if (!std::isfinite(number) || number < 0) throw Wrong(fmt::format("{} is no amount", number));
  return number;
}

std::int64_t count_from(const Json& value) {
  const auto number = value.get<std::int64_t>();
  if (!value.is_number_integer() || number < 0) throw Wrong(fmt::format("{} is no count", value.dump()));
  return number;
}

std::optional<Error> failure_from(const Json& outcome, const Json& detail) {
  const auto& name = outcome.get_ref<const std::string&>();
  if (name == right) return std::nullopt;
  for (const auto& [text, kind] : failures) {
    if (text == name) return Error{kind, detail.get<std::string>()};
  }
  throw Wrong(fmt::format("unknown outcome '{}'", name));
}

RecordedCandidate candidate_from(const Json& row, std::size_t features) {
  RecordedCandidate candidate;
  if (!row.is_array() || row.size() != 11) throw Wrong("not a row of 11 columns");
  candidate.schedule = hash_from(row[0]);
  candidate.predicted_us = row[1].get<double>();
  candidate.failure = failure_from(row[2], row[3]);
  candidate.registers = count_from(row[4]);
  candidate.shared_bytes = count_from(row[5]);
  candidate.spill_bytes = count_from(row[6]);
  candidate.median = amount_from(row[7]);
  candidate.noise = amount_from(row[8]);
  for (const Json& sample : row[9]) candidate.samples.push_back(amount_from(sample));
  if (candidate.samples.size() > Recording::most_samples)
    throw Wrong(fmt::format("{} samples", candidate.samples.size()));
  if (candidate.failure.has_value() != candidate.samples.empty())
    throw Wrong(candidate.failure ? "samples of a failure" : "no samples, and no failure");
  row[10].get_to(candidate.features);
  if (!candidate.features.empty() && candidate.features.size() != features)
    throw Wrong(fmt::format("{} features, {} have names", candidate.features.size(), features));
  return candidate;
}

RecordedKernel kernel_from(const Json& document, std::size_t features, std::string& place) {
  RecordedKernel kernel;
  const std::string here = place;
  kernel.key = hash_from(document.at("key"));
  document.at("name").get_to(kernel.name);
  kernel.occurrences = count_from(document.at("occurrences"));
  kernel.graph = bytes_from(document.at("graph"));
  kernel.legal = count_from(document.at("legal"));
  document.at("whole").get_to(kernel.whole);
  kernel.wanted = count_from(document.at("wanted"));
  for (const Json& row : document.at("candidates")) {
    place = fmt::format("{}.candidates[{}]", here, kernel.candidates.size());
    kernel.candidates.push_back(candidate_from(row, features));
  }
  place = here;
  return kernel;
}

DeviceIdentity device_from(const Json& document) {
  DeviceIdentity device = identity_from(document);
  device.sm_count = count_from(document.at("sm_count"));
  device.memory_bytes = count_from(document.at("memory_bytes"));
  return device;
}

Recording recording_from(const Json& document, std::string& place) {
  Recording recording;
  document.at("tool").get_to(recording.tool);
  document.at("generator").get_to(recording.generator);
  document.at("target").get_to(recording.target);
  document.at("architecture").get_to(recording.architecture);
  document.at("toolkit").get_to(recording.toolkit);
  document.at("scorer").get_to(recording.scorer);
  document.at("verification").get_to(recording.verification);
  place = "device";
  recording.device = device_from(document.at("device"));
  place = "head";
  const auto kind = document.at("kind").get<std::string>();
  if (kind == to_string(Measurement::Kind::event_count)) {
    recording.kind = Measurement::Kind::event_count;
  } else if (kind != to_string(Measurement::Kind::device_time)) {
    throw Wrong(fmt::format("unknown kind of figures '{}'", kind));
  }
  document.at("unit").get_to(recording.unit);
  document.at("method").get_to(recording.method);
  document.at("cold_l2").get_to(recording.cold_l2);
  document.at("when_us").get_to(recording.when_us);
  document.at("feature_names").get_to(recording.feature_names);
  for (const Json& kernel : document.at("kernels")) {
    place = fmt::format("kernels[{}]", recording.kernels.size());
    recording.kernels.push_back(kernel_from(kernel, recording.feature_names.size(), place));
  }
  return recording;
}

template <class... Args>
Error corrupt(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorKind::corrupt, "recording: {}", fmt::format(format, std::forward<Args>(args)...));
}

/// What so many compressed bytes can become at most: a block is at most 128 KiB and takes at least 4 bytes (RFC 8878,
/// 3.1.1.2). A header that asks for more is wrong, whatever its payload is.
std::uint64_t most_raw_bytes(std::uint64_t compressed) {
  constexpr std::uint64_t most_of_block = std::uint64_t{128} << 10;
  constexpr std::uint64_t least_block = 4;
  return compressed / least_block * most_of_block;
}

Result<Header> checked_header(std::string_view bytes, const RecordingLimits& limits) {
  Header header;
  if (bytes.size() > limits.file_bytes) {
    return make_error(ErrorKind::resource_exhausted, "recording: {} bytes, more than {}", bytes.size(),
                      limits.file_bytes);
  }
  if (bytes.size() < sizeof header) return corrupt("{} bytes are no header", bytes.size());
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != magic) return corrupt("it does not begin as one");
  if (header.version != recording_format_version) {
    return make_error(ErrorKind::version_mismatch, "recording: format {}; this program reads {}", header.version,
                      recording_format_version);
  }
  if (header.reserved != 0) return corrupt("its header is damaged");
  const std::string_view payload = bytes.substr(sizeof header);
  if (header.compressed_bytes != payload.size()) {
    return corrupt("{} bytes of payload, not {}", payload.size(), header.compressed_bytes);
  }
  if (header.checksum != hash_bytes(payload)) return corrupt("its checksum differs");
  if (const std::uint64_t most = most_raw_bytes(payload.size()); header.raw_bytes > most) {
    return corrupt("its header says {} bytes when decompressed, its {} bytes of payload cannot be more than {}",
                   header.raw_bytes, payload.size(), most);
  }
  if (header.raw_bytes > limits.raw_bytes) {
    return make_error(ErrorKind::resource_exhausted, "recording: {} bytes when decompressed, more than {}",
                      header.raw_bytes, limits.raw_bytes);
  }
  return header;
}

/// Grows with what comes out of the payload, not with what the header says of it.
Result<std::string> decompress(std::string_view payload, std::uint64_t raw_bytes) {
  const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(ZSTD_createDCtx(), ZSTD_freeDCtx);
  if (context == nullptr) return make_error(ErrorKind::resource_exhausted, "recording: no memory for zstd");
  std::string raw;
  std::string piece(ZSTD_DStreamOutSize(), '\0');
  ZSTD_inBuffer in = {payload.data(), payload.size(), 0};
  for (;;) {
    ZSTD_outBuffer out = {piece.data(), piece.size(), 0};
    const std::size_t wanted = ZSTD_decompressStream(context.get(), &out, &in);
    if (ZSTD_isError(wanted) != 0) return corrupt("its payload cannot be decompressed ({})", ZSTD_getErrorName(wanted));
    raw.append(piece, 0, out.pos);
    if (raw.size() > raw_bytes) return corrupt("its payload is more than the {} bytes of its header", raw_bytes);
    if (wanted == 0 && in.pos == in.size) break;
    if (out.pos == 0 && in.pos == in.size) return corrupt("its payload ends within a frame");
  }
  if (raw.size() != raw_bytes) return corrupt("its payload is {} bytes, its header says {}", raw.size(), raw_bytes);
  return raw;
}

}  // namespace

void keep_samples(const Measurement& measurement, RecordedCandidate& candidate) {
  candidate.median = measurement.median;
  candidate.noise = measurement.noise;
  std::vector<double> sorted = measurement.samples;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t kept = std::min(sorted.size(), Recording::most_samples);
  candidate.samples.clear();
  for (std::size_t i = 0; i < kept; ++i) {
    const double sample = sorted[(2 * i + 1) * sorted.size() / (2 * kept)];
    candidate.samples.push_back(static_cast<float>(sample));
  }
}

Measurement replayed(const Recording& recording, const RecordedCandidate& candidate) {
  Measurement measurement;
  measurement.kind = recording.kind;
  measurement.unit = recording.unit;
  measurement.samples = candidate.samples;
  summarise(measurement, Verdict::stable);
  measurement.median = candidate.median;
  measurement.noise = candidate.noise;
  measurement.stopped = fmt::format("recorded (noise {:.2f} %)", 100 * candidate.noise);
  measurement.method = "recording of " + recording.method;
  measurement.cold_l2 = recording.cold_l2;
  measurement.driver = recording.device.driver;
  measurement.no_counters = "a recording has none";
  return measurement;
}

RecordingIndex::RecordingIndex(const Recording& recording) {
  for (const RecordedKernel& kernel : recording.kernels) {
    kernels_.emplace(kernel.key, &kernel);
    auto& found = candidates_[kernel.key];
    for (const RecordedCandidate& candidate : kernel.candidates) found.emplace(candidate.schedule, &candidate);
  }
}

const RecordedKernel* RecordingIndex::kernel(const Hash128& key) const {
  const auto found = kernels_.find(key);
  return found == kernels_.end() ? nullptr : found->second;
}

const RecordedCandidate* RecordingIndex::candidate(const Hash128& key, const Hash128& schedule) const {
  const auto of_kernel = candidates_.find(key);
  if (of_kernel == candidates_.end()) return nullptr;
  const auto found = of_kernel->second.find(schedule);
  return found == of_kernel->second.end() ? nullptr : found->second;
}

bool is_recording(std::string_view bytes) { return bytes.starts_with(std::string_view(magic.data(), magic.size())); }

Result<std::string> encode_recording(const Recording& recording) {
  const std::vector<std::uint8_t> raw = Json::to_cbor(document_of(recording));
  std::string bytes(sizeof(Header) + ZSTD_compressBound(raw.size()), '\0');
  const std::size_t size = ZSTD_compress(bytes.data() + sizeof(Header), bytes.size() - sizeof(Header), raw.data(),
                                         raw.size(), compression_level);
  if (ZSTD_isError(size) != 0) return make_error(ErrorKind::internal, "zstd: {}", ZSTD_getErrorName(size));
  bytes.resize(sizeof(Header) + size);
  const Header header = {
      magic, recording_format_version, 0, hash_bytes(std::string_view(bytes).substr(sizeof(Header))), size, raw.size()};
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

Result<Recording> decode_recording(std::string_view bytes, const RecordingLimits& limits) {
  STITCH_ASSIGN(const Header header, checked_header(bytes, limits));
  const std::string_view payload = bytes.substr(sizeof header);
  STITCH_ASSIGN(const std::string raw, decompress(payload, header.raw_bytes));
  auto document = graph::parse_document(raw, graph::Encoding::cbor, limits.raw_bytes);
  if (!document) return document.error().within("recording");
  std::string place = "head";
  try {
    return recording_from(*document, place);
  } catch (const Json::exception& exception) {
    return make_error(ErrorKind::parse, "recording: {}: {}", place, exception.what());
  } catch (const Wrong& wrong) {
    return make_error(ErrorKind::parse, "recording: {}: {}", place, wrong.what());
  }
}

Result<Recording> read_recording(const FileSystem& files, const std::filesystem::path& path) {
  STITCH_ASSIGN(const std::string bytes, files.read(path));
  auto recording = decode_recording(bytes);
  if (!recording) return recording.error().within(path.string());
  return recording;
}

Status write_recording(FileSystem& files, const std::filesystem::path& path, const Recording& recording) {
  STITCH_ASSIGN(const std::string bytes, encode_recording(recording));
  return files.publish(path, bytes);
}

}  // namespace stitch::profiler
