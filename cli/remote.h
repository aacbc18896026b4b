#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/result.h"
#include "client/client.h"
#include "tuning/plans/tuner.h"

namespace stitch::cli {

/// A connection to the server at `address`: unix:PATH, unix:///PATH or http://HOST:PORT.
Result<std::unique_ptr<client::Client>> connect(std::string_view address);

/// `address` as the client library spells it: "unix:sock" is the socket `sock` in the working folder.
std::string full_address(std::string_view address);

/// Lets the server tune a model under constraints, with so many trials beyond the first few of each kernel, and waits
/// for it: the job's result. When `stop` fires the job is cancelled. Errors: how the job ended, and those of the
/// client.
Result<std::string> tune_remotely(client::Client& client, std::string bytes, std::string_view name, std::int64_t trials,
                                  const graph::Constraints& constraints, const tuning::ProgressSink& progress,
                                  const std::stop_token& stop);

}  // namespace stitch::cli
