#pragma once

#include <filesystem>
#include <string>

#include "api/program_document.h"
#include "cli/interruption.h"
#include "cli/session.h"

namespace stitch::cli {

/// A model's program, made in this process.
struct LocalProgram {
  CommonOptions common;
  std::string name;                ///< of the model's file
  std::filesystem::path database;  ///< whose plans are taken, and that keeps what is made; empty: none
  tuning::ProductsBy products = tuning::ProductsBy::library;
  bool tunes = false;  ///< every kernel is verified
  bool makes = true;   ///< false: what the database serves, and nothing else
};

/// Errors: those of Session::open, of the importer and of tuning::make_program.
Result<api::Program> make_local_program(const LocalProgram& wanted, const std::string& bytes,
                                        const Interruption& interruption);

}  // namespace stitch::cli
