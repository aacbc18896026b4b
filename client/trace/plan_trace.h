#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/program_document.h"
#include "api/protocol.h"
#include "base/result.h"
#include "base/trace.h"

// What the trace of a process (base/trace.h) says of plans.
namespace stitch::client {

/// Adds to the phase of a look-up, and to the process's sums (base/tally.h), whether it was a hit, which plan came of
/// it, and of a miss why. `name`: the fragment's.
void note_answer(trace::Phase& phase, const Result<api::LookupAnswer>& answer, std::string_view name);

/// What a fragment is called in a trace: its name, or its first operators where it has none.
std::string name_in_trace(const graph::Graph& fragment, const std::string& name);

/// An event per fragment of a program that has a plan; `source`: where it is from, "store", "file", or "made" (here,
/// which is no hit).
void trace_plans(const api::Program& program, std::string_view source);
/// One per fragment that has none, with the reason.
void trace_missing(const api::Program& program);

/// Something of a model that others than our kernels compute, also in the process's sums.
void trace_fallback(std::string_view what, std::string_view reason, std::string_view to, std::string_view model);

/// Work that was handed in, as it comes.
Result<api::Submitted> traced(std::string_view name, Result<api::Submitted> submitted);

/// The phase of a plan's or program's first run ("host memory") or launch ("stream", the time to enqueue it); of later
/// ones nothing, at the price of a look.
std::optional<trace::Phase> first_launch(bool& launched, const Hash128& of, std::string_view on);

}  // namespace stitch::client
