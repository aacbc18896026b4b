#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/session.h"

// One function per command: adds its options to the application and leaves its exit code in `code` when it runs.
namespace stitch::cli {

void add_plan_command(CLI::App& app, ExitCode& code);
void add_tune_command(CLI::App& app, ExitCode& code);
void add_zoo_command(CLI::App& app, ExitCode& code);
void add_run_command(CLI::App& app, ExitCode& code);
void add_bench_command(CLI::App& app, ExitCode& code);
void add_record_command(CLI::App& app, ExitCode& code);
void add_calibrate_command(CLI::App& app, ExitCode& code);
void add_conformance_command(CLI::App& app, ExitCode& code);
void add_random_conformance(CLI::App& conformance, ExitCode& code);        ///< conformance random
void add_differential_conformance(CLI::App& conformance, ExitCode& code);  ///< conformance differential
void add_cost_model_command(CLI::App& app, ExitCode& code);                ///< cost-model list, train, report
void add_search_command(CLI::App& app, ExitCode& code);
void add_serve_command(CLI::App& app, ExitCode& code);
void add_show_command(CLI::App& app, ExitCode& code);
void add_transfer_commands(CLI::App& app, ExitCode& code);  ///< export, import
void add_prune_command(CLI::App& app, ExitCode& code);
void add_env_command(CLI::App& app, ExitCode& code);
/// `program`: what followed --run on the command line (cli/emulate_program.h).
void add_emulate_command(CLI::App& app, ExitCode& code, std::vector<std::string> program);
void add_evaluate_command(CLI::App& app, ExitCode& code);
void add_explain_command(CLI::App& app, ExitCode& code);
void add_explain_miss_command(CLI::App& app, ExitCode& code);
void add_package_command(CLI::App& app, ExitCode& code);
void add_trace_command(CLI::App& app, ExitCode& code);
void add_lock_command(CLI::App& app, ExitCode& code);
void add_machine_code_command(CLI::App& app, ExitCode& code);
void add_contractions_command(CLI::App& app, ExitCode& code);
void add_verify_command(CLI::App& app, ExitCode& code);

/// What --device takes; whether there is such a device is seen when it is opened (tuning/devices/device_set.h).
CLI::Validator device_name();

/// What --target takes: an entry of the device table or another class (base/device_class.h).
CLI::Validator target_name();

/// Options that several commands take.
void add_common_options(CLI::App& command, CommonOptions& options);
/// Makes of a word that says who multiplies matrices in a program its number in tuning::ProductsBy.
CLI::Validator products_word();
/// --products: who multiplies matrices in a program.
void add_products_option(CLI::App& command, tuning::ProductsBy& products);
/// --deterministic and --batch-invariant.
void add_constraint_options(CLI::App& command, graph::Constraints& constraints);

/// Prints an error the way every command does (stderr; as JSON on stdout with --json), and gives its exit code.
ExitCode report(const Error& error, bool json);

}  // namespace stitch::cli
