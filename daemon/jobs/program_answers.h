#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "api/program_document.h"
#include "base/sha256.h"
#include "db/store.h"
#include "graph/codec/encoding.h"

namespace stitch::daemon {

/// What is asked for with `GET /v1/programs/{key}`: all that its answer depends on besides the store.
struct ProgramQuestion {
  Sha256 model;
  api::CodeInside code = api::CodeInside::none;
  graph::Encoding encoding = graph::Encoding::json;

  bool operator==(const ProgramQuestion&) const = default;
};

/// A program as it is sent, and its entity tag: the SHA-256 of the bytes.
struct ProgramAnswer {
  std::shared_ptr<const std::string> body;
  std::string tag;
};

struct ProgramAnswersOptions {
  std::int64_t most_bytes = std::int64_t{128} << 20;    ///< of all answers
  std::int64_t largest_bytes = std::int64_t{32} << 20;  ///< of one; larger ones are made each time
};

/// Answers that were given, for as long as the store has what they were made of: the model's program, and what is
/// served of each of its fragments. As LookupAnswers, it is told nothing: while nobody commits an answer is right, and
/// after a commit the store is asked for the rows that would differ, once. Safe to use from any number of threads;
/// nothing is done under its lock but finding and linking.
class ProgramAnswers {
 public:
  /// The store must outlive it. `device`: the class of GPUs whose programs are answered.
  ProgramAnswers(const db::Store& store, std::string device, ProgramAnswersOptions options = {})
      : store_(store), device_(std::move(device)), options_(options) {}

  /// An answer that is right now; asks the store if need be.
  std::optional<ProgramAnswer> find(const ProgramQuestion& question);
  /// Keeps an answer that was made of these plans, not before `begun`.
  void keep(const ProgramQuestion& question, const std::optional<db::StoreVersion>& begun,
            const std::vector<db::PlanKey>& plans, const ProgramAnswer& answer);

  struct Counts {
    std::int64_t hits = 0, misses = 0, stale = 0;
    std::int64_t answers = 0, bytes = 0;  ///< kept now
  };
  [[nodiscard]] Counts counts() const;

 private:
  /// What an answer tells of, as the store has it.
  struct Basis {
    Sha256 document;  ///< of the program
    std::vector<db::PlanKey> keys;
    std::vector<std::optional<db::PlanRecord>> served;  ///< per key

    bool operator==(const Basis&) const = default;
  };
  struct Entry {
    ProgramQuestion question;
    ProgramAnswer answer;
    std::shared_ptr<const Basis> basis;
    db::StoreVersion right_at;
    std::int64_t bytes = 0;
  };
  using Entries = std::list<Entry>;

  [[nodiscard]] Result<Basis> basis_of(const ProgramQuestion& question, const std::vector<db::PlanKey>& keys) const;
  Entries::iterator find_entry(const ProgramQuestion& question);
  void erase(Entries::iterator entry);

  const db::Store& store_;
  const std::string device_;
  const ProgramAnswersOptions options_;
  mutable std::mutex mutex_;  ///< guards everything below
  Entries entries_;           ///< most recently used first
  Counts counts_;
};

}  // namespace stitch::daemon
