#include "cli/commands.h"
#include "cli/output_file.h"
#include "cli/pipeline_flags.h"
#include "cli/program.h"
#include "schedule/error.h"
#include "trace/chrome_export.h"
#include "trace/trace_reader.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <iostream>
#include <memory>

namespace pipescope {
namespace {
struct ExportFlags {
    std::string trace;
    std::string format;
    std::string output;
    bool force = false;
};

/// One line per task, measured ones first; times in ns. No field needs quoting.
void export_csv(const TraceReader& trace, std::ostream& out) {
    out << "source,step,kind,partition,micro_batch,skip,lane,start_ns,end_ns,bytes\n";
    for (const Source source : {Source::measured, Source::simulated}) {
        for (const Slice& slice : trace.timeline(source).slices) {
            fmt::print(out, "{},{},{},{},{},{},{},{},{},{}\n", to_string(source), slice.key.step,
                       to_string(slice.key.kind), slice.key.partition, slice.key.micro_batch, slice.key.skip,
                       slice.lane.value(), slice.start.count(), slice.end.count(), slice.bytes);
        }
    }
}

using Exporter = void (*)(const TraceReader&, std::ostream&);

struct Format {
    Exporter write;
    const char* extension;
};

Format format_named(const std::string& name) {
    if (name == "chrome") {
        return {export_chrome, ".chrome.json"};
    }
    if (name == "csv") {
        return {export_csv, ".csv"};
    }
    throw UsageError(
        fmt::format("--format is '{}'; the formats are chrome and csv; for a picture use 'pipescope view "
                    "FILE --render out.png'",
                    name));
}

ExitCode export_command(const ExportFlags& flags) {
    const Format format = format_named(flags.format);
    const bool to_stdout = flags.output == "-";
    std::filesystem::path output = flags.output;
    if (output.empty()) {
        output = std::filesystem::path(flags.trace).replace_extension(format.extension);
    }
    if (!to_stdout) {
        check_output(output, flags.force);
    }
    const TraceReader trace(flags.trace);
    if (to_stdout) {
        format.write(trace, std::cout);
        return ExitCode::success;
    }
    write_output(output, flags.force, [&](std::ostream& out) { format.write(trace, out); });
    std::cout << fmt::format("wrote {}\n", output.string());
    return ExitCode::success;
}
}  // namespace

void add_export_command(Program& program) {
    const auto flags = std::make_shared<ExportFlags>();
    CLI::App* command = program.add_command(
        "export", "Turn a trace into a file for other tools",
        "Example:\n  pipescope export out.sqlite --format chrome -o out.json\n"
        "Open Chrome JSON at ui.perfetto.dev or chrome://tracing; csv has one line per task, times in ns.");
    command->add_option("TRACE", flags->trace, "Trace of 'run --trace' or 'simulate --trace'")->required();
    command->add_option("--format", flags->format, "chrome or csv")->required()->type_name("NAME");
    command
        ->add_option("-o,--output", flags->output,
                     "Where to; '-' is stdout. Default: beside the trace, ending in .chrome.json or .csv")
        ->type_name("FILE")
        ->group("Output");
    add_force_flag(*command, flags->force);
    program.set_action(command, [flags] { return export_command(*flags); });
}
}  // namespace pipescope
