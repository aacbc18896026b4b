#include "base/result.h"

namespace stitch {

std::string_view to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid_argument: return "invalid_argument";
    case ErrorKind::parse: return "parse";
    case ErrorKind::unsupported: return "unsupported";
    case ErrorKind::not_found: return "not_found";
    case ErrorKind::already_exists: return "already_exists";
    case ErrorKind::io: return "io";
    case ErrorKind::corrupt: return "corrupt";
    case ErrorKind::version_mismatch: return "version_mismatch";
    case ErrorKind::resource_exhausted: return "resource_exhausted";
    case ErrorKind::constraint: return "constraint";
    case ErrorKind::compile: return "compile";
    case ErrorKind::timeout: return "timeout";
    case ErrorKind::runtime: return "runtime";
    case ErrorKind::correctness: return "correctness";
    case ErrorKind::unavailable: return "unavailable";
    case ErrorKind::cancelled: return "cancelled";
    case ErrorKind::internal: return "internal";
  }
  return "unknown";
}

}  // namespace stitch
