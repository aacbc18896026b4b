#include "db/portable.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>

#include "db/blob.h"
#include "db/bundle_codec.h"

namespace stitch::db {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view magic = "stitch\r\n";  // spoiled by whatever "converts" line ends
constexpr std::uint32_t format_version = 2;
constexpr std::size_t header_bytes = 12;
constexpr std::size_t record_header_bytes = 32;

void append_word(std::string& bytes, std::uint64_t value, int count) {
  for (int i = 0; i < count; ++i) bytes += static_cast<char>(value >> (8 * i));
}

std::uint64_t read_word(const char* bytes, int count) {
  std::uint64_t value = 0;
  for (int i = count; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

/// One record: compressed length, raw length, hash of the compressed bytes, the compressed bytes.
Result<std::string> pack(const FragmentBundle& bundle) {
  const std::string document = encode_bundle(bundle);
  STITCH_ASSIGN(const std::string frame, compress(document));
  const Hash128 hash = hash_bytes(frame);
  std::string record;
  append_word(record, frame.size(), 8);
  append_word(record, document.size(), 8);
  append_word(record, hash.high, 8);
  append_word(record, hash.low, 8);
  return record + frame;
}

/// Writes a file beside its place and moves it there when it is whole.
class PortableWriter {
 public:
  explicit PortableWriter(fs::path path) : path_(std::move(path)) {
    static std::atomic<unsigned> counter{0};
    temporary_ = path_.parent_path() / fmt::format(".{}.{}.{}", path_.filename().string(), ::getpid(), counter++);
    fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd_ < 0) opening_ = errno;
  }
  ~PortableWriter() {
    if (fd_ >= 0) ::close(fd_);
    if (fd_ >= 0 && !published_) ::unlink(temporary_.c_str());
  }
  PortableWriter(const PortableWriter&) = delete;
  PortableWriter& operator=(const PortableWriter&) = delete;

  Status append(std::string_view bytes) {
    if (fd_ < 0) return failure("create", opening_);
    while (!bytes.empty()) {
      const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return failure("write", errno);
      bytes.remove_prefix(written);
    }
    return {};
  }

  Status publish() {
    if (::fsync(fd_) != 0) return failure("sync", errno);
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) return failure("publish", errno);
    published_ = true;
    return {};
  }

 private:
  Error failure(std::string_view what, int code) const {
    const bool full = code == ENOSPC || code == EDQUOT || code == EFBIG;
    return make_error(full ? ErrorKind::resource_exhausted : ErrorKind::io, "cannot {} {}: {}", what, path_.string(),
                      std::strerror(code));
  }

  const fs::path path_;
  fs::path temporary_;
  int fd_ = -1;
  int opening_ = 0;
  bool published_ = false;
};

/// Reads such a file from start to end, one bundle at a time.
class PortableReader {
 public:
  explicit PortableReader(const fs::path& path) : path_(path), stream_(path, std::ios::binary) {}

  Status read_header() {
    std::error_code code;
    if (!stream_ || !fs::is_regular_file(path_, code))
      return make_error(fs::exists(path_, code) ? ErrorKind::io : ErrorKind::not_found, "cannot open {}",
                        path_.string());
    std::array<char, header_bytes> header{};
    STITCH_TRY(read(header.data(), header.size(), ErrorKind::parse));
    if (std::string_view(header.data(), magic.size()) != magic)
      return make_error(ErrorKind::parse, "{} is not an export of Stitch", path_.string());
    const std::uint64_t version = read_word(header.data() + magic.size(), 4);
    if (version < 1 || version > format_version)
      return make_error(ErrorKind::version_mismatch, "{} has export format {}; this Stitch reads formats 1 to {}",
                        path_.string(), version, format_version);
    version_ = version;
    return {};
  }

  /// The next bundle; nothing at the end, which has been checked then.
  Result<std::optional<FragmentBundle>> next() {
    const std::uint64_t at = at_;
    std::array<char, record_header_bytes> header{};
    STITCH_TRY(read(header.data(), 16, ErrorKind::corrupt));
    const std::uint64_t packed = read_word(header.data(), 8);
    const std::uint64_t raw = read_word(header.data() + 8, 8);
    if (packed == 0) return finish(raw);
    STITCH_TRY(read(header.data() + 16, 16, ErrorKind::corrupt));
    const Hash128 hash{read_word(header.data() + 16, 8), read_word(header.data() + 24, 8)};
    if (packed > static_cast<std::uint64_t>(most_blob_bytes) || raw > static_cast<std::uint64_t>(most_blob_bytes))
      return damaged(at, "impossible length");
    std::error_code code;
    if (packed > fs::file_size(path_, code) - at_) return damaged(at, "the file ends inside it");
    std::string frame(packed, '\0');
    STITCH_TRY(read(frame.data(), frame.size(), ErrorKind::corrupt));
    if (hash_bytes(frame) != hash) return damaged(at, "its checksum does not match");
    const Result<std::string> document = decompress(frame, raw);
    if (!document) return damaged(at, document.error().message);
    Result<FragmentBundle> bundle = version_ == 1 ? decode_bundle_1(*document) : decode_bundle(*document);
    if (!bundle) return damaged(at, bundle.error().message);
    ++count_;
    return std::optional<FragmentBundle>(std::move(*bundle));
  }

 private:
  Result<std::optional<FragmentBundle>> finish(std::uint64_t count) {
    if (count != count_) return damaged(at_, fmt::format("{} fragments where there should be {}", count_, count));
    if (stream_.peek() != std::char_traits<char>::eof()) return damaged(at_, "bytes after the end");
    return std::optional<FragmentBundle>();
  }

  Status read(char* bytes, std::size_t count, ErrorKind kind_at_end) {
    stream_.read(bytes, count);
    at_ += stream_.gcount();
    if (stream_) return {};
    if (stream_.eof()) return make_error(kind_at_end, "{} ends at byte {}, before it should", path_.string(), at_);
    return make_error(ErrorKind::io, "cannot read {} at byte {}", path_.string(), at_);
  }

  Error damaged(std::uint64_t at, std::string_view what) const {
    return make_error(ErrorKind::corrupt, "{}: record at byte {}: {}", path_.string(), at, what);
  }

  const fs::path path_;
  std::ifstream stream_;
  std::uint64_t version_ = 0;
  std::uint64_t at_ = 0;
  std::uint64_t count_ = 0;
};

void add(MergeReport& sum, const MergeReport& part) {
  sum.fragments += part.fragments;
  sum.plans += part.plans;
  sum.kernels += part.kernels;
  sum.artifacts += part.artifacts;
  sum.candidates += part.candidates;
  sum.measurements += part.measurements;
  sum.known += part.known;
}

/// Reads the whole file, giving every bundle to `take`.
template <class Take>
Status for_each_bundle(const fs::path& path, const Take& take) {
  PortableReader reader(path);
  STITCH_TRY(reader.read_header());
  while (true) {
    STITCH_ASSIGN(const std::optional<FragmentBundle> bundle, reader.next());
    if (!bundle) return {};
    STITCH_TRY(take(*bundle));
  }
}

}  // namespace

Status export_fragments(const Store& store, std::span<const Hash128> keys, const fs::path& path) {
  std::error_code code;
  PortableWriter writer(fs::absolute(path, code));
  std::string edge(magic);
  append_word(edge, format_version, 4);
  STITCH_TRY(writer.append(edge));
  for (const Hash128& key : keys) {
    STITCH_ASSIGN(const FragmentBundle bundle, store.get_fragment_bundle(key));
    STITCH_ASSIGN(const std::string record, pack(bundle));
    STITCH_TRY(writer.append(record));
  }
  edge.clear();
  append_word(edge, 0, 8);
  append_word(edge, keys.size(), 8);
  STITCH_TRY(writer.append(edge));
  return writer.publish();
}

Result<MergeReport> import_fragments(Store& store, const fs::path& path) {
  STITCH_TRY(for_each_bundle(path, [](const FragmentBundle&) { return Status(); }));
  MergeReport sum;
  STITCH_TRY(for_each_bundle(path, [&](const FragmentBundle& bundle) -> Status {
    STITCH_ASSIGN(const MergeReport part, store.merge_fragment(bundle));
    add(sum, part);
    return {};
  }));
  return sum;
}

}  // namespace stitch::db
