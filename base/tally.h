#pragma once

#include <cstdint>
#include <string>
#include <string_view>

/// What this process did, summed up, for whoever asks it (`stitch.report()`): how often each kind of phase of
/// base/trace.h was gone through and how long that took, where fragments' plans came from, why some were not there,
/// what fell back, and how many kernels ran. Kept whether anybody traces or not; a launch costs one addition. Texts are
/// names, ids and reasons, never contents of tensors. Safe to use from any number of threads; a forked child goes on
/// from its parent's sums.
namespace stitch::tally {

/// A phase ended that took so long.
void phase(std::string_view name, std::int64_t took_us, bool failed);

/// So many more of an event: "swaps", "withdrawn", "jobs".
void count(std::string_view event, std::int64_t by = 1);

/// A fragment's plan came from `source`, which is one of trace.h's; `label`: how well its time is founded ("measured"),
/// or
/// "" where there is no plan yet.
void plan(std::string_view source, std::string_view label);

/// A fragment that had no plan stored, and why; `served`: the source of what it has instead, or "" if it has none.
void miss(std::string_view fragment, std::string_view name, std::string_view reason, std::string_view served);

/// Something that others than our kernels compute.
void fell_back(std::string_view what, std::string_view reason, std::string_view to, std::string_view where);

/// Kernels of a plan were launched.
void launched(std::int64_t kernels) noexcept;

/// All of it as a JSON object: `phases` (by name `{count, us, failed}`), `plans_by_source`, `plans_by_label`, `events`
/// (by name), `missed` (`{fragment, name, reason, source, count}`), `fell_back` (`{what, reason, to, where, count}`),
/// `launches`, and `left_out`: how many misses and fall-backs came when there were too many different ones to list.
std::string json();

/// Begins anew.
void reset();

}  // namespace stitch::tally
