#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

/// The variables of the environment that programs, libraries and the Python package read: one table, for `stitch env`
/// and for whoever wants to tell a slip of the pen from an option.
namespace stitch {

struct EnvironmentVariable {
  const char* name;
  const char* reader;  ///< whose it is
  const char* meaning;
  const char* option = "";     ///< its name in the Python package's file of options; "": it has none
  const char* otherwise = "";  ///< what holds where nobody says anything else
};

/// All of them (tests/scripts/environment_test.py holds the sources against it).
std::span<const EnvironmentVariable> environment_variables();

/// Names that begin like ours, are set, and are read by nobody here.
std::vector<std::string> unknown_environment_variables();

/// The known name that a word is most likely meant to be; empty where none is like it (two letters differ at the most).
std::string_view nearest_environment_variable(std::string_view word);

}  // namespace stitch
