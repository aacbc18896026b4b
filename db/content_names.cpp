#include "db/content_names.h"

#include <bit>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "db/blob.h"

namespace stitch::db {
namespace {

using sqlite::Blob;
using sqlite::Connection;
using sqlite::Row;
using sqlite::Statement;

// This is what versions 3 and 4 were, in terms of their columns: records (db/records.h) may change, a published
// migration does not.

constexpr std::string_view provenance = "tool, toolkit, judged_on, wall_us, judged";

struct KernelRow {
  std::int64_t row = 0;
  Hash128 hash;
  std::string name, architecture, options;
  Hash128 source, ptx, cubin;
  std::string launch;
  std::int64_t resources[5] = {};
};

struct NewNames {
  Sha256 source, ptx, cubin;
};

void add_resources(Hasher& hasher, const KernelRow& kernel) {
  hasher.text(kernel.launch);
  for (const std::int64_t amount : kernel.resources) hasher.integer(amount);
}

Hash128 kernel_identity_1(const KernelRow& kernel) {
  Hasher hasher;
  hasher.text("kernel").integer(1).text(kernel.name).text(kernel.architecture).text(kernel.options);
  hasher.hash(kernel.source).hash(kernel.ptx).hash(kernel.cubin);
  add_resources(hasher, kernel);
  return hasher.finish();
}

Hash128 kernel_identity_2(const KernelRow& kernel, const NewNames& names) {
  Hasher hasher;
  hasher.text("kernel").integer(2).text(kernel.name).text(kernel.architecture).text(kernel.options);
  hasher.bytes(names.source.bytes()).bytes(names.ptx.bytes()).bytes(names.cubin.bytes());
  add_resources(hasher, kernel);
  return hasher.finish();
}

struct PlanRow {
  std::int64_t row = 0;
  Hash128 id, fragment;
  std::string device, architecture, toolkit, version, document;
  std::int64_t bytes = 0;
  std::vector<std::pair<Hash128, std::string>> steps;  ///< kernel, arguments
};

Hash128 plan_identity_1(const PlanRow& plan) {
  Hasher hasher;
  hasher.text("plan").integer(1).hash(plan.fragment).text(plan.device).text(plan.architecture).text(plan.toolkit);
  hasher.text(plan.version).integer(plan.steps.size());
  for (const auto& [kernel, arguments] : plan.steps) hasher.hash(kernel).text(arguments);
  return hasher.text(plan.document).integer(plan.bytes).finish();
}

struct MeasurementRow {
  std::int64_t row = 0;
  Hash128 id;
  std::string subject_kind;
  Hash128 subject;
  std::string kind, device, samples;
  std::int64_t dropped = 0, cold_l2 = 0;
  std::optional<double> readings[3];  ///< clocks of SMs and memory, temperature
  std::string texts[7];               ///< driver, method, stopped, conditions, tool, toolkit, judged_on
  std::int64_t wall_us = 0;
  std::string judged;
};

Hash128 measurement_identity_1(const MeasurementRow& measured) {
  Hasher hasher;
  hasher.text("measurement").integer(1).text(measured.subject_kind).hash(measured.subject).text(measured.kind);
  hasher.text(measured.device).integer(measured.samples.size() / 8);
  for (std::size_t at = 0; at + 8 <= measured.samples.size(); at += 8) {
    std::uint64_t word = 0;
    for (std::size_t i = 8; i-- > 0;) word = word << 8 | static_cast<unsigned char>(measured.samples[at + i]);
    hasher.integer(word);
  }
  hasher.integer(measured.dropped).integer(measured.cold_l2);
  for (const std::optional<double>& reading : measured.readings) {
    hasher.integer(reading ? 1 : 0);
    if (reading) hasher.integer(std::bit_cast<std::uint64_t>(*reading));
  }
  for (const std::string& text : measured.texts) hasher.text(text);
  return hasher.integer(measured.wall_us).text(measured.judged).finish();
}

/// All rows of a query, each read by `read` from the first column on.
template <class Record, class Read>
Result<std::vector<Record>> rows_of(Connection& connection, std::string_view sql, const Read& read) {
  STITCH_ASSIGN(Statement rows, connection.query(sql));
  std::vector<Record> all;
  while (true) {
    STITCH_ASSIGN(const bool more, rows.step());
    if (!more) return all;
    Row row(rows, "a row to be named anew");
    read(row, all.emplace_back());
    STITCH_TRY(row.status());
  }
}

/// The text with every word of 32 hexadecimal digits replaced that `find` (Hash128 → optional text) knows.
template <class Find>
std::string with_new_names(std::string_view text, const Find& find) {
  constexpr std::size_t digits = 32;
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  std::string result;
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t end = at;
    while (end < text.size() && is_digit(text[end])) ++end;
    const std::string_view word = text.substr(at, end - at);
    const std::optional<Hash128> old = word.size() == digits ? Hash128::from_hex(word) : std::nullopt;
    const std::optional<std::string> now = old ? find(*old) : std::nullopt;
    result += now ? std::string_view(*now) : word;
    if (end < text.size()) result += text[end++];
    at = end;
  }
  return result;
}

class Renaming {
 public:
  explicit Renaming(Connection& connection) : connection_(connection) {}

  Status run() {
    STITCH_TRY(contents());
    STITCH_TRY(fragments());
    STITCH_TRY(kernels());
    STITCH_TRY(plans());
    STITCH_TRY(references());
    STITCH_TRY(measurements());
    STITCH_TRY(workloads());
    return jobs();
  }

 private:
  struct Named {
    Sha256 name;
    std::string kind;
  };

  Status contents();
  Status fragments();
  Status kernels();
  Status plans();
  Status references();
  Status measurements();
  Status workloads();
  Status jobs();
  /// The name that a row of `table` refers to from now on by the old name of contents of this kind.
  Result<Sha256> renamed(const Hash128& old, std::string_view kind, std::string_view table, std::int64_t row);

  Connection& connection_;
  std::unordered_map<Hash128, Named> contents_;  ///< by old name
  std::unordered_map<Hash128, Sha256> code_;     ///< what kernels refer to
  std::unordered_map<Hash128, Hash128> kernels_, plans_;
};

Status Renaming::contents() {
  STITCH_ASSIGN(Statement rows,
                connection_.query("SELECT row, hash, kind, raw_bytes, data FROM artifact ORDER BY row"));
  while (true) {
    STITCH_ASSIGN(const bool more, rows.step());
    if (!more) return {};
    Row row(rows, "artifact");
    const std::int64_t number = row.integer();
    const Hash128 old = row.hash();
    const std::string kind = row.text();
    const std::int64_t raw_bytes = row.integer();
    const Result<std::string> bytes = decompress(row.view(), raw_bytes);
    STITCH_TRY(row.status());
    const bool sound = bytes && hash_bytes(*bytes) == old;
    const Sha256 name = sound ? sha256(*bytes) : name_of_damage(old, kind);
    contents_.emplace(old, Named{name, kind});
    const bool sent = kind == "model";
    const std::string sql = fmt::format(
        "INSERT INTO {0} SELECT row, ?, {1}raw_bytes, stored_bytes, data, {2} FROM artifact WHERE row = ?",
        sent ? "upload (row, hash, raw_bytes, stored_bytes, data, tool, toolkit, judged_on, wall_us, judged)"
             : "artifact_named (row, hash, kind, raw_bytes, stored_bytes, data, tool, toolkit, judged_on, wall_us, "
               "judged)",
        sent ? "" : "kind, ", provenance);
    STITCH_TRY(connection_.execute(sql, name, number));
  }
}

Result<Sha256> Renaming::renamed(const Hash128& old, std::string_view kind, std::string_view table, std::int64_t row) {
  const auto known = contents_.find(old);
  if (known != contents_.end() && known->second.kind == kind) return known->second.name;
  // An upload that stood for what was generated: its bytes are not to be trusted, and what refers to it must not
  // dangle.
  const Sha256 name = name_of_damage(old, kind);
  STITCH_ASSIGN(const std::string nothing, compress(""));
  const std::string sql = fmt::format(
      "INSERT OR IGNORE INTO artifact_named (hash, kind, raw_bytes, stored_bytes, data, {0}) "
      "SELECT ?, ?, 0, ?, ?, {0} FROM {1} WHERE row = ?",
      provenance, table);
  STITCH_TRY(connection_.execute(sql, name, kind, std::ssize(nothing), Blob{nothing}, row));
  return name;
}

Status Renaming::fragments() {
  using Found = std::pair<std::int64_t, Hash128>;
  STITCH_ASSIGN(const auto all,
                rows_of<Found>(connection_, "SELECT row, graph FROM fragment", [](Row& row, Found& into) {
                  into.first = row.integer();
                  into.second = row.hash();
                }));
  for (const auto& [row, graph] : all) {
    STITCH_ASSIGN(const Sha256 name, renamed(graph, "graph", "fragment", row));
    STITCH_TRY(connection_.execute("UPDATE fragment SET graph = ? WHERE row = ?", name, row));
  }
  return {};
}

Status Renaming::kernels() {
  STITCH_ASSIGN(const auto all,
                rows_of<KernelRow>(connection_,
                                   "SELECT row, hash, name, architecture, options, source, ptx, cubin, launch, "
                                   "registers, shared_bytes, stack_bytes, spill_store_bytes, spill_load_bytes "
                                   "FROM kernel",
                                   [](Row& row, KernelRow& into) {
                                     into.row = row.integer();
                                     into.hash = row.hash();
                                     into.name = row.text();
                                     into.architecture = row.text();
                                     into.options = row.text();
                                     into.source = row.hash();
                                     into.ptx = row.hash();
                                     into.cubin = row.hash();
                                     into.launch = row.text();
                                     for (std::int64_t& amount : into.resources) amount = row.integer();
                                   }));
  for (const KernelRow& kernel : all) {
    NewNames names;
    STITCH_ASSIGN(names.source, renamed(kernel.source, "source", "kernel", kernel.row));
    STITCH_ASSIGN(names.ptx, renamed(kernel.ptx, "ptx", "kernel", kernel.row));
    STITCH_ASSIGN(names.cubin, renamed(kernel.cubin, "cubin", "kernel", kernel.row));
    code_[kernel.ptx] = names.ptx;
    code_[kernel.cubin] = names.cubin;
    code_[kernel.source] = names.source;
    const bool sound = kernel_identity_1(kernel) == kernel.hash;
    const Hash128 hash = sound ? kernel_identity_2(kernel, names) : kernel.hash;
    kernels_[kernel.hash] = hash;
    STITCH_TRY(connection_.execute("UPDATE kernel SET hash = ?, source = ?, ptx = ?, cubin = ? WHERE row = ?", hash,
                                   names.source, names.ptx, names.cubin, kernel.row));
  }
  return {};
}

Status Renaming::plans() {
  STITCH_ASSIGN(auto all,
                rows_of<PlanRow>(connection_,
                                 "SELECT p.row, p.id, p.fragment, t.device, t.architecture, t.toolkit, "
                                 "t.version, p.document, p.bytes FROM plan p JOIN target t ON t.row = p.target",
                                 [](Row& row, PlanRow& into) {
                                   into.row = row.integer();
                                   into.id = row.hash();
                                   into.fragment = row.hash();
                                   into.device = row.text();
                                   into.architecture = row.text();
                                   into.toolkit = row.text();
                                   into.version = row.text();
                                   into.document = row.text();
                                   into.bytes = row.integer();
                                 }));
  for (PlanRow& plan : all) {
    using Step = std::pair<Hash128, std::string>;
    const std::string sql =
        fmt::format("SELECT kernel, arguments FROM plan_step WHERE plan = {} ORDER BY position", plan.row);
    STITCH_ASSIGN(plan.steps, rows_of<Step>(connection_, sql, [](Row& row, Step& into) {
                    into.first = row.hash();
                    into.second = row.text();
                  }));
    const bool sound = plan_identity_1(plan) == plan.id;
    for (auto& [kernel, arguments] : plan.steps) {
      if (const auto known = kernels_.find(kernel); known != kernels_.end()) kernel = known->second;
    }
    plan.document = with_new_names(plan.document, [&](const Hash128& old) -> std::optional<std::string> {
      const auto known = code_.find(old);
      return known == code_.end() ? std::nullopt : std::optional(known->second.hex());
    });
    const Hash128 id = sound ? plan_identity_1(plan) : plan.id;
    plans_[plan.id] = id;
    STITCH_TRY(connection_.execute("UPDATE plan SET id = ?, document = ? WHERE row = ?", id, plan.document, plan.row));
  }
  return {};
}

Status Renaming::references() {
  for (const auto& [old, now] : kernels_) {
    STITCH_TRY(connection_.execute("UPDATE plan_step SET kernel = ? WHERE kernel = ?", now, old));
    STITCH_TRY(connection_.execute("UPDATE candidate SET kernel = ? WHERE kernel = ?", now, old));
  }
  STITCH_TRY(connection_.run_script("CREATE TEMP TABLE renamed (old BLOB PRIMARY KEY, now BLOB NOT NULL)"));
  for (const auto& [old, now] : plans_) STITCH_TRY(connection_.execute("INSERT INTO renamed VALUES (?, ?)", old, now));
  for (const auto& [table, column] :
       {std::pair{"plan", "neighbour"}, std::pair{"promotion", "plan"}, std::pair{"promotion", "previous"}}) {
    STITCH_TRY(connection_.run_script(
        fmt::format("UPDATE {0} SET {1} = r.now FROM temp.renamed r WHERE {0}.{1} = r.old", table, column)));
  }
  return connection_.run_script("DROP TABLE temp.renamed");
}

Status Renaming::measurements() {
  STITCH_ASSIGN(auto all, rows_of<MeasurementRow>(
                              connection_,
                              "SELECT row, id, subject_kind, subject, kind, device, samples, dropped, cold_l2, "
                              "sm_clock_mhz, memory_clock_mhz, temperature_c, driver, method, stopped, conditions, "
                              "tool, toolkit, judged_on, wall_us, judged FROM measurement "
                              "WHERE subject_kind IN ('plan', 'kernel')",
                              [](Row& row, MeasurementRow& into) {
                                into.row = row.integer();
                                into.id = row.hash();
                                into.subject_kind = row.text();
                                into.subject = row.hash();
                                into.kind = row.text();
                                into.device = row.text();
                                into.samples = row.text();
                                into.dropped = row.integer();
                                into.cold_l2 = row.integer();
                                for (auto& reading : into.readings) reading = row.optional_real();
                                for (std::string& text : into.texts) text = row.text();
                                into.wall_us = row.integer();
                                into.judged = row.text();
                              }));
  for (MeasurementRow& measured : all) {
    const auto& names = measured.subject_kind == "plan" ? plans_ : kernels_;
    const auto known = names.find(measured.subject);
    if (known == names.end()) continue;
    const bool sound = measurement_identity_1(measured) == measured.id;
    measured.subject = known->second;
    const Hash128 id = sound ? measurement_identity_1(measured) : measured.id;
    STITCH_TRY(connection_.execute("UPDATE measurement SET id = ?, subject = ? WHERE row = ?", id, measured.subject,
                                   measured.row));
  }
  return {};
}

Status Renaming::workloads() {
  using Found = std::pair<std::int64_t, Hash128>;
  STITCH_ASSIGN(const auto all, rows_of<Found>(connection_, "SELECT row, key FROM workload", [](Row& row, Found& into) {
                  into.first = row.integer();
                  into.second = row.hash();
                }));
  for (const auto& [row, key] : all) {
    // Files are not kept for ever: the name of one that is gone can only be made of the old one.
    const auto known = contents_.find(key);
    const bool kept = known != contents_.end() && known->second.kind == "model";
    const Sha256 name = kept ? known->second.name : sha256("workload " + key.hex());
    const std::string sql = fmt::format(
        "INSERT INTO workload_named (row, key, name, format, report, {0}) "
        "SELECT row, ?, name, format, report, {0} FROM workload WHERE row = ?",
        provenance);
    STITCH_TRY(connection_.execute(sql, name, row));
  }
  return {};
}

/// Jobs say in JSON what they are about: a file of a model, or, when they have ended, the plan that they made.
Status Renaming::jobs() {
  struct JobRow {
    std::int64_t id = 0;
    std::string dedupe_key, payload, result;
  };
  STITCH_ASSIGN(const auto all, rows_of<JobRow>(connection_, "SELECT id, dedupe_key, payload, result FROM job",
                                                [](Row& row, JobRow& into) {
                                                  into.id = row.integer();
                                                  into.dedupe_key = row.text();
                                                  into.payload = row.text();
                                                  into.result = row.text();
                                                }));
  const auto file = [&](const Hash128& old) -> std::optional<std::string> {
    const auto known = contents_.find(old);
    if (known == contents_.end() || known->second.kind != "model") return std::nullopt;
    return known->second.name.hex();
  };
  const auto plan = [&](const Hash128& old) -> std::optional<std::string> {
    const auto known = plans_.find(old);
    return known == plans_.end() ? std::nullopt : std::optional(known->second.hex());
  };
  for (const JobRow& job : all) {
    const std::string payload = with_new_names(job.payload, file), result = with_new_names(job.result, plan);
    STITCH_TRY(connection_.execute("UPDATE job SET dedupe_key = ?, payload = ?, result = ? WHERE id = ?",
                                   with_new_names(job.dedupe_key, file), Blob{payload}, Blob{result}, job.id));
  }
  return {};
}

}  // namespace

Sha256 name_of_damage(const Hash128& old, std::string_view kind) {
  return sha256(fmt::format("damaged {} {}", kind, old.hex()));
}

Status rename_contents(Connection& connection) { return Renaming(connection).run(); }

}  // namespace stitch::db
