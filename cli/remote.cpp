#include "cli/remote.h"

#include <filesystem>

namespace stitch::cli {

std::string full_address(std::string_view address) {
  constexpr std::string_view scheme = "unix:";
  if (!address.starts_with(scheme) || address.starts_with("unix://")) return std::string(address);
  return "unix://" + std::filesystem::absolute(address.substr(scheme.size())).string();
}

Result<std::unique_ptr<client::Client>> connect(std::string_view address) {
  client::ClientOptions options;
  options.server = full_address(address);
  return client::Client::open(options);
}

Result<std::string> tune_remotely(client::Client& client, std::string bytes, std::string_view name, std::int64_t trials,
                                  const graph::Constraints& constraints, const tuning::ProgressSink& progress,
                                  const std::stop_token& stop) {
  STITCH_ASSIGN(const api::Submitted submitted, client.submit_model(std::move(bytes), name, trials, constraints));
  STITCH_TRY(client.follow(submitted.job, 0, [&](const api::JobEvent& event) {
    if (progress) progress({event.kind, event.progress, event.detail});
    return !stop.stop_requested();
  }));
  if (stop.stop_requested()) {
    STITCH_ASSIGN(const api::JobStatus job, client.cancel(submitted.job));
    if (!job.finished() || job.state == "cancelled") {
      return make_error(ErrorKind::cancelled, "job {} was cancelled; what it had stored stays", submitted.job);
    }
  }
  STITCH_ASSIGN(api::JobStatus job, client.job(submitted.job));
  if (job.error) return job.error->within(fmt::format("job {}", job.id));
  if (job.state != "done") return make_error(ErrorKind::cancelled, "job {} ended as {}", job.id, job.state);
  return std::move(job.result);
}

}  // namespace stitch::cli
