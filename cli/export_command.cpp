#include "analysis/recorded_run.h"
#include "analysis/stored_simulation.h"
#include "analysis/trace_warnings.h"
#include "base/error.h"
#include "base/printable.h"
#include "cli/commands.h"
#include "cli/joined_trace.h"
#include "cli/option_flags.h"
#include "cli/output_file.h"
#include "cli/program.h"
#include "trace/foreign/chrome_export.h"
#include "trace/foreign/task_rules.h"
#include "trace/open_trace.h"
#include "trace/store/csv_export.h"

#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <optional>
#include <vector>

namespace pipescope {
namespace {
struct ExportFlags {
    std::string trace;
    std::string format;
    std::string table;
    std::string output;
    std::string rules;
    bool force = false;
};

struct Format {
    bool csv = false;
    std::optional<CsvTable> table;  ///< the requested table
    const char* extension = "";
};

Format format_of(const ExportFlags& flags) {
    if (flags.format != "csv" && !flags.table.empty()) {
        throw UsageError(fmt::format("--table is '{}'; only --format csv has tables; leave it out", flags.table));
    }
    if (flags.format == "chrome") {
        return {false, std::nullopt, ".chrome.json"};
    }
    if (flags.format == "csv") {
        const auto table = parse_csv_table(flags.table);
        if (!table && !flags.table.empty()) {
            throw UsageError(
                fmt::format("--table is '{}'; the tables are tasks, steps, memory and ranges", flags.table));
        }
        return {true, table, ".csv"};
    }
    throw UsageError(
        fmt::format("--format is '{}'; the formats are chrome and csv; for a picture use 'pipescope view "
                    "FILE --render out.png'",
                    flags.format));
}

void write_as(const OpenedTrace& trace, const Format& format, std::ostream& out) {
    if (format.csv) {
        export_csv(trace, format.table.value_or(trace.has_tasks() ? CsvTable::tasks : CsvTable::ranges), out);
    } else {
        export_chrome(trace, out);
    }
}

OpenedTrace open_for_export(const std::string& path, const std::string& rules) {
    OpenOptions options;
    if (!rules.empty()) {
        options.rules = std::make_shared<const TaskRules>(TaskRules::load(rules));
    }
    OpenedTrace trace = open_trace(path, options);
    if (trace.origin == TraceOrigin::profile) {
        throw TraceFormatError(path +
                               " is a profile, not a trace; give a trace, such as 'pipescope simulate --trace' "
                               "writes from it");
    }
    const bool is_own = trace.origin == TraceOrigin::pipescope || trace.origin == TraceOrigin::pipescope_chrome;
    if (const std::string missing = missing_content(trace); !is_own && !missing.empty()) {  // as in the viewer
        throw TraceFormatError(path + " cannot be exported: " + missing);
    }
    return trace;
}

/// The warnings that the viewer shows.
std::vector<TraceWarning> warnings_of(const OpenedTrace& trace) {
    RecordedRun run = recorded_run(trace);
    std::optional<Simulation> simulation =
        trace.measured.slices.empty() ? simulate_run(run, /*noise=*/false) : std::nullopt;  // only tasks are compared
    if (simulation) {
        if (const std::optional<TraceWarning> differs = take_stored_tasks(*simulation, trace.simulated, {})) {
            run.warnings.push_back(*differs);
        }
    }
    return run.warnings;
}

ExitCode export_command(const ExportFlags& flags) {
    const Format format = format_of(flags);
    const bool to_stdout = flags.output == "-";
    std::filesystem::path output = flags.output;
    if (output.empty()) {
        output = std::filesystem::path(flags.trace).replace_extension(format.extension);
    }
    if (!to_stdout) {
        check_output(output, flags.force);
        check_not_input(output, flags.trace);
    }
    const OpenedTrace trace = open_for_export(flags.trace, flags.rules);
    print_warnings(texts_of(warnings_of(trace)));  // to stderr, since the output may be stdout
    if (to_stdout) {
        write_as(trace, format, std::cout);
        return ExitCode::success;
    }
    write_output(output, flags.force, [&](std::ostream& out) { write_as(trace, format, out); });
    std::cout << fmt::format("wrote {}\n", printable(output.string()));
    return ExitCode::success;
}
}  // namespace

void add_export_command(Program& program) {
    const auto flags = std::make_shared<ExportFlags>();
    CLI::App* command = program.add_command(
        "export", "Convert a trace to a file for other tools",
        "Example:\n"
        "  pipescope export out.sqlite --format chrome -o out.json\n"
        "Open Chrome JSON at ui.perfetto.dev or chrome://tracing. csv has one line per row of --table, times in ns.\n"
        "Reads the viewer's formats: PipeScope's traces and their Chrome exports, exports of nsys, JSON of PyTorch's\n"
        "profiler.");
    command->add_option("TRACE", flags->trace, "Trace of 'run --trace', of 'simulate --trace' or of another profiler")
        ->required();
    add_task_rules_option(*command, flags->rules);
    add_option(*command, "--format", flags->format, "chrome or csv", "NAME")->required();
    add_option(*command, "--table", flags->table,
               "With csv: tasks, steps, memory or ranges; default: tasks, or ranges if there are none", "NAME");
    add_option(*command, "-o,--output", flags->output,
               "Output file; '-' is stdout. Default: next to the trace, ending in .chrome.json or .csv", "FILE",
               "Output");
    add_force_flag(*command, flags->force);
    program.set_action(command, [flags] { return export_command(*flags); });
}
}  // namespace pipescope
