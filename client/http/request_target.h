#pragma once

#include <string>
#include <string_view>

#include "api/program_document.h"

// Parts of what requests to a server name (docs/api.md has the paths).
namespace stitch::client {

/// Text as a field of a query. A name is for people: what a target cannot carry becomes a space.
std::string encoded(std::string_view text);

/// "/v1/models?name=bert%20base".
std::string with_name(std::string_view path, std::string_view name);

/// "?code=ptx": how much code is to be inside a program. Servers of earlier versions know 1, which is all.
std::string code_query(api::CodeInside inside);

}  // namespace stitch::client
