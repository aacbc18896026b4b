#pragma once

#include <string_view>

#include "base/result.h"
#include "db/record_fields.h"

namespace stitch::db {

/// The archive that looks at the rules beside a record's fields (db/record_fields.h) and keeps the first thing that is
/// wrong: "plan: target: device is empty", of kind invalid_argument. What must hold between fields is said by
/// `require` in the validate functions (db/validation.cpp), which records.h, trial_records.h and job_records.h declare.
class Validation {
 public:
  template <class Record>
  Validation(std::string_view name, const Record& record) : Validation(name) {
    visit_fields(*this, record);
  }

  Validation& require(bool holds, std::string_view what);
  [[nodiscard]] Status done() const { return status_; }

  template <class T, class... Notes>
  Validation& operator()(std::string_view name, const T& value, const Notes&... notes) {
    (check(name, value, notes), ...);
    if (status_) look_into(name, value);
    return *this;
  }
  template <class... Notes>
  Validation& bytes(std::string_view name, const std::string& value, const Notes&... notes) {
    return (*this)(name, value, notes...);
  }
  template <class T, class... Notes>
  Validation& stored(std::string_view name, const T& value, const Notes&... notes) {
    return (*this)(name, value, notes...);
  }

 private:
  explicit Validation(std::string_view name) : name_(name) {}

  template <class T, class Note>
  void check(std::string_view name, const T& value, const Note& note) {
    if constexpr (std::derived_from<Note, Rule>) {
      const Fault fault = status_ ? graph::fields::fault_of(value, note) : Fault();
      if (fault) refuse(name, note, *fault);
    }
  }

  void refuse(std::string_view name, const Rule& rule, std::string_view what);

  template <class T>
  void look_into(std::string_view name, const T& value) {
    if constexpr (graph::fields::Record<T>) {
      const Status inner = Validation(name, value).done();
      if (!inner) status_ = inner.error().within(name_);
    }
  }
  template <graph::fields::Record T>
  void look_into(std::string_view, const std::vector<T>& parts) {
    for (const T& part : parts) visit_fields(*this, part);
  }

  std::string_view name_;
  Status status_;
};

}  // namespace stitch::db
