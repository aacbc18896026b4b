#include "db/job_records.h"

#include "db/words.h"

namespace stitch::db {
namespace {

constexpr Words<JobState, 5> state_words{{"queued", "running", "done", "failed", "cancelled"}};

}  // namespace

std::string_view to_string(JobState state) { return state_words.of(state); }
std::optional<JobState> job_state_of(std::string_view text) { return state_words.find(text); }

}  // namespace stitch::db
