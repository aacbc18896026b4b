#pragma once

#include <nlohmann/json_fwd.hpp>

#include "api/protocol.h"

// The parts that a plan's document and other messages are made of.
namespace stitch::api {

nlohmann::json to_document(const PlanTarget& target);

/// Fills what plan_document wrote and checks that arguments, copies and zeroed ranges refer to what the plan has.
/// Error: parse, naming the field.
Status read_fixed_part(const nlohmann::json& document, Plan& plan);

}  // namespace stitch::api
