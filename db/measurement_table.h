#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "db/sqlite.h"
#include "db/trial_records.h"

// Rows of table `measurement`. Callers hold the transaction.
namespace stitch::db::tables {

struct RecordedMeasurement {
  Hash128 id;
  bool inserted = false;
};

/// Stores a measurement once per content. Device time of a plan makes the plan measured, with the median of its newest
/// measurement (by wall time). Its device must be stored, and so must its subject if that is a plan or a kernel; an
/// emulated device tells no device time (invalid_argument).
Result<RecordedMeasurement> insert_measurement(sqlite::Connection& connection, const MeasurementRecord& measurement);

/// All of one subject, oldest first, checked against their ids.
Result<std::vector<MeasurementRecord>> select_measurements(sqlite::Connection& connection, const Hash128& subject);

}  // namespace stitch::db::tables
