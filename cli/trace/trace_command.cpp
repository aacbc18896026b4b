#include <cstdio>
#include <map>

#include "cli/commands.h"
#include "cli/trace/chrome_trace.h"
#include "cli/trace/trace_file.h"
#include "cli/trace/trace_page.h"
#include "cli/trace/trace_summary.h"

namespace stitch::cli {
namespace {

struct TraceOptions {
  std::filesystem::path from, output;
  bool latest = false, json = false;
};

ChromeTrace to_chrome(const std::vector<ProcessTrace>& traces) {
  ChromeTrace chrome;
  chrome.about = {{"clock", "host time"}};
  std::int64_t first = traces.front().began_us;
  for (const ProcessTrace& trace : traces) first = std::min(first, trace.began_us);
  std::int64_t process = 0;  // processes of two machines may have one number
  for (const ProcessTrace& trace : traces) {
    chrome.processes[++process] = trace.title();
    for (const TraceEvent& event : trace.events) {
      ChromeEvent one{event.name, "stitch", static_cast<double>(event.at_us - first), {}, process, event.thread, {}};
      if (event.took_us) one.took_us = static_cast<double>(*event.took_us);
      for (const auto& [name, value] : event.fields.items()) {
        if (name != "event" && name != "ts" && name != "dur" && name != "tid") one.arguments[name] = value;
      }
      chrome.events.push_back(std::move(one));
    }
  }
  return chrome;
}

Result<ExitCode> trace_of(const TraceOptions& options) {
  RealFileSystem files;
  STITCH_ASSIGN(std::vector<ProcessTrace> traces, read_traces(files, options.from));
  if (options.latest) traces = latest_run(std::move(traces));
  for (const ProcessTrace& trace : traces) {
    if (trace.cut) std::fprintf(stderr, "stitch: %s: its last line is cut and was skipped\n", trace.file.c_str());
  }
  if (!options.output.empty()) {
    const bool chrome = options.output.extension() == ".json";
    STITCH_TRY(files.publish(options.output, chrome ? to_json(to_chrome(traces)) : to_page(traces)));
  }
  std::printf("%s\n", options.json ? to_json(traces).c_str() : to_table(traces).c_str());
  return ExitCode::success;
}

}  // namespace

void add_trace_command(CLI::App& app, ExitCode& code) {
  auto options = std::make_shared<TraceOptions>();
  CLI::App* command =
      app.add_subcommand("trace", "What processes did that ran with STITCH_TRACE=DIR: as text, a page, or a timeline");
  command->add_option("DIR", options->from, "the folder that STITCH_TRACE named, or one file of it")->required();
  command->add_flag("--latest", options->latest,
                    "only the latest run: the process that began last, and those that ran beside it");
  command->add_option("-o,--output", options->output,
                      "FILE.json: trace events for chrome://tracing and Perfetto; any other name: a page of HTML");
  command->add_flag("--json", options->json, "print one JSON object");
  command->callback([options, &code] {
    const Result<ExitCode> result = trace_of(*options);
    code = result ? *result : report(result.error(), options->json);
  });
}

}  // namespace stitch::cli
