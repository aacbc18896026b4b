#include "db/artifact_table.h"

#include "db/blob.h"

namespace stitch::db::tables {

using sqlite::Blob;
using sqlite::Connection;
using sqlite::Row;
using sqlite::Statement;

Result<bool> insert_artifact(Connection& connection, const Artifact& artifact) {
  STITCH_ASSIGN(Statement known, connection.query("SELECT 1 FROM artifact WHERE hash = ?", artifact.hash));
  STITCH_ASSIGN(const bool found, known.step());
  if (found) return false;
  STITCH_TRY(validate(artifact));
  STITCH_ASSIGN(const std::string data, compress(artifact.bytes));
  STITCH_TRY(connection.execute(
      "INSERT INTO artifact (hash, kind, raw_bytes, stored_bytes, data, tool, toolkit, judged_on, wall_us, judged) "
      "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
      artifact.hash, to_string(artifact.kind), static_cast<std::int64_t>(artifact.bytes.size()),
      static_cast<std::int64_t>(data.size()), Blob{data}, artifact.provenance));
  return true;
}

Result<Artifact> select_artifact(Connection& connection, const Hash128& hash) {
  STITCH_ASSIGN(Statement rows,
                connection.query("SELECT kind, raw_bytes, data, tool, toolkit, judged_on, wall_us, judged "
                                 "FROM artifact WHERE hash = ?",
                                 hash));
  STITCH_ASSIGN(const bool found, rows.step());
  if (!found) return make_error(ErrorKind::not_found, "no artifact {}", hash.hex());
  const std::string name = fmt::format("artifact {}", hash.hex());
  Row row(rows, name);
  Artifact artifact;
  artifact.hash = hash;
  artifact.kind = row.word(artifact_kind_of);
  const std::int64_t raw_bytes = row.integer();
  Result<std::string> bytes = decompress(row.view(), raw_bytes);
  if (!bytes) return bytes.error().within(name);
  artifact.bytes = std::move(*bytes);
  artifact.provenance = row.provenance();
  STITCH_TRY(row.status());
  if (hash_bytes(artifact.bytes) != hash)
    return make_error(ErrorKind::corrupt, "{}: the stored bytes have hash {}", name, hash_bytes(artifact.bytes).hex());
  return artifact;
}

Result<bool> insert_kernel(Connection& connection, const Kernel& kernel) {
  const Hash128 hash = kernel_hash(kernel);
  STITCH_ASSIGN(Statement known, connection.query("SELECT 1 FROM kernel WHERE hash = ?", hash));
  STITCH_ASSIGN(const bool found, known.step());
  if (found) return false;
  STITCH_TRY(validate(kernel));
  for (const auto& [hash_of, what] :
       {std::pair{kernel.source, "source"}, {kernel.ptx, "ptx"}, {kernel.cubin, "cubin"}}) {
    STITCH_ASSIGN(Statement artifact, connection.query("SELECT 1 FROM artifact WHERE hash = ?", hash_of));
    STITCH_ASSIGN(const bool there, artifact.step());
    if (!there)
      return make_error(ErrorKind::invalid_argument, "kernel {}: its {}, artifact {}, is not stored", kernel.name, what,
                        hash_of.hex());
  }
  const Kernel::Resources& resources = kernel.resources;
  STITCH_TRY(connection.execute(
      "INSERT INTO kernel (hash, name, architecture, options, source, ptx, cubin, launch, registers, shared_bytes, "
      "stack_bytes, spill_store_bytes, spill_load_bytes, tool, toolkit, judged_on, wall_us, judged) "
      "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
      hash, kernel.name, kernel.architecture, kernel.options, kernel.source, kernel.ptx, kernel.cubin, kernel.launch,
      resources.registers, resources.shared_bytes, resources.stack_bytes, resources.spill_store_bytes,
      resources.spill_load_bytes, kernel.provenance));
  return true;
}

Result<Kernel> select_kernel(Connection& connection, const Hash128& hash) {
  STITCH_ASSIGN(
      Statement rows,
      connection.query("SELECT name, architecture, options, source, ptx, cubin, launch, registers, shared_bytes, "
                       "stack_bytes, spill_store_bytes, spill_load_bytes, tool, toolkit, judged_on, wall_us, judged "
                       "FROM kernel WHERE hash = ?",
                       hash));
  STITCH_ASSIGN(const bool found, rows.step());
  if (!found) return make_error(ErrorKind::not_found, "no kernel {}", hash.hex());
  const std::string name = fmt::format("kernel {}", hash.hex());
  Row row(rows, name);
  Kernel kernel;
  kernel.hash = hash;
  kernel.name = row.text();
  kernel.architecture = row.text();
  kernel.options = row.text();
  kernel.source = row.hash();
  kernel.ptx = row.hash();
  kernel.cubin = row.hash();
  kernel.launch = row.text();
  kernel.resources.registers = row.small();
  kernel.resources.shared_bytes = row.integer();
  kernel.resources.stack_bytes = row.integer();
  kernel.resources.spill_store_bytes = row.integer();
  kernel.resources.spill_load_bytes = row.integer();
  kernel.provenance = row.provenance();
  STITCH_TRY(row.status());
  if (kernel_hash(kernel) != hash)
    return make_error(ErrorKind::corrupt, "{}: the stored row has hash {}", name, kernel_hash(kernel).hex());
  return kernel;
}

}  // namespace stitch::db::tables
