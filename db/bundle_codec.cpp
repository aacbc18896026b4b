#include "db/bundle_codec.h"

#include "db/blob.h"
#include "db/bundle_version_1.h"
#include "db/record_fields.h"
#include "graph/codec/document_reader.h"
#include "graph/codec/document_writer.h"

namespace stitch::db {

using graph::fields::Expected;
using graph::fields::Json;
using graph::fields::Reader;

namespace {

/// Whatever is wrong in a portable file is damage: "plans[2].label is the unknown word \"superb\"".
class PortableDialect : public graph::fields::Dialect {
 public:
  explicit PortableDialect(bool with_short_names) {
    binary_hashes = true;
    short_names = with_short_names;
    rules = false;  // validate() looks at whole records
    any_number = true;
  }
  Error missing(const std::string& path) const override {
    return make_error(ErrorKind::corrupt, "{} is missing", path);
  }
  Error wrong(const std::string& path, Expected expected, const Json&) const override {
    constexpr std::string_view names[] = {"true or false", "an integer", "a number", "text",      "bytes",
                                          "a hash",        "a SHA-256",  "a list",   "an object", "a tensor type"};
    return make_error(ErrorKind::corrupt, "{} is not {}", path, names[static_cast<std::size_t>(expected)]);
  }
  Error too_large(const std::string& path, const Json&) const override {
    return make_error(ErrorKind::corrupt, "{} is out of range", path);
  }
  Error unknown_word(const std::string& path, std::string_view word) const override {
    return make_error(ErrorKind::corrupt, "{} is the unknown word \"{}\"", path, word);
  }
};

template <class Record>
void check(Reader& reader, const Record& record) {
  const Status valid = validate(record);
  if (!valid) reader.fail(make_error(ErrorKind::corrupt, "{}: {}", reader.place().path(), valid.error().message));
}

void check_identity(Reader& reader, std::string_view field, const Hash128& said, const Hash128& is) {
  if (said == is || reader.dialect().short_names) return;  // what has old names has old identities
  const std::string path = graph::fields::Place{&reader.place(), field}.path();
  reader.fail(make_error(ErrorKind::corrupt, "{} is not that of the record", path));
}

}  // namespace

// Every record is validated as it is read. These are found by the reader, in the namespace of the records.

static void finish_reading(Reader& reader, const FragmentRecord& fragment) { check(reader, fragment); }
static void finish_reading(Reader& reader, const Device& device) { check(reader, device); }
static void finish_reading(Reader& reader, const Artifact& artifact) {
  if (!reader.dialect().short_names) check(reader, artifact);
}
static void finish_reading(Reader& reader, const Candidate& candidate) { check(reader, candidate); }

static void finish_reading(Reader& reader, const Kernel& kernel) {
  check(reader, kernel);
  check_identity(reader, "hash", kernel.hash, kernel_hash(kernel));
}

static void finish_reading(Reader& reader, const PlanRecord& plan) {
  check(reader, plan);
  check_identity(reader, "id", plan.id, plan_id(plan));
}

static void finish_reading(Reader& reader, MeasurementRecord& measurement) {
  measurement.summary = summarise(measurement.samples);
  check(reader, measurement);
  check_identity(reader, "id", measurement.id, measurement_id(measurement));
}

static void finish_reading(Reader& reader, const FragmentBundle& bundle) {
  for (const PlanRecord& plan : bundle.plans) {
    if (plan.key.fragment == bundle.fragment.key) continue;
    reader.fail(make_error(ErrorKind::corrupt, "plans hold a plan of another fragment"));
  }
}

std::string encode_bundle(const FragmentBundle& bundle) {
  std::string bytes;
  Json::to_cbor(graph::fields::document_of(bundle, {.binary_hashes = true}), bytes);
  return bytes;
}

static Result<FragmentBundle> decode(std::string_view bytes, const PortableDialect& dialect) {
  const auto document = graph::parse_document(bytes, graph::Encoding::cbor, most_blob_bytes);
  if (!document) {
    const bool too_much = document.error().kind == ErrorKind::resource_exhausted;
    return Error{too_much ? ErrorKind::resource_exhausted : ErrorKind::corrupt, document.error().message};
  }
  FragmentBundle bundle;
  const Json nothing = Json::object();
  STITCH_TRY(graph::fields::read_document(document->is_object() ? *document : nothing, bundle, {}, dialect));
  return bundle;
}

Result<FragmentBundle> decode_bundle(std::string_view bytes) {
  static const PortableDialect dialect(false);
  return decode(bytes, dialect);
}

Result<FragmentBundle> decode_bundle_1(std::string_view bytes) {
  static const PortableDialect dialect(true);
  STITCH_ASSIGN(FragmentBundle bundle, decode(bytes, dialect));
  STITCH_TRY(rename_contents(bundle));
  return decode_bundle(encode_bundle(bundle));  // validated as one of today
}

}  // namespace stitch::db
