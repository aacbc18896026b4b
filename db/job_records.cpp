#include "db/job_records.h"

#include "db/validation.h"
#include "db/words.h"

namespace stitch::db {
namespace {

constexpr Words<JobState, 5> state_words{{"queued", "running", "done", "failed", "cancelled"}};

}  // namespace

std::string_view to_string(JobState state) { return state_words.of(state); }
std::optional<JobState> job_state_of(std::string_view text) { return state_words.find(text); }

Status validate(const Job& job) {
  return Validation("job")
      .require(!job.kind.empty(), "kind is empty")
      .require(job.max_stalled >= 1, "max_stalled is less than 1")
      .nested(validate(job.provenance))
      .done();
}

}  // namespace stitch::db
