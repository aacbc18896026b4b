#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/result.h"
#include "db/records.h"

namespace stitch::db {

/// Collects the first thing that is wrong with a record; for the validate functions.
class Validation {
 public:
  explicit Validation(std::string_view record) : record_(record) {}

  Validation& require(bool holds, std::string_view what) {
    if (!holds && status_) status_ = make_error(ErrorKind::invalid_argument, "{}: {}", record_, what);
    return *this;
  }
  Validation& json(std::string_view text, std::string_view field) {
    if (status_ && !nlohmann::json::accept(text))
      status_ = make_error(ErrorKind::invalid_argument, "{}: {} is not JSON", record_, field);
    return *this;
  }
  Validation& time(double value, std::string_view field) {
    if (status_ && !(std::isfinite(value) && value >= 0))
      status_ = make_error(ErrorKind::invalid_argument, "{}: {} is {}, not a time", record_, field, value);
    return *this;
  }
  Validation& share(double value, std::string_view field) {
    if (status_ && !(value >= 0 && value <= 1))
      status_ = make_error(ErrorKind::invalid_argument, "{}: {} is {}, not between 0 and 1", record_, field, value);
    return *this;
  }
  Validation& nested(const Status& inner) {
    if (status_ && !inner) status_ = inner.error().within(record_);
    return *this;
  }
  [[nodiscard]] Status done() const { return status_; }

 private:
  std::string_view record_;
  Status status_;
};

}  // namespace stitch::db
