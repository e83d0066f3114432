#include "trace/store/csv_export.h"

#include "schedule/backward_half.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <ostream>
#include <string>

namespace pipescope {
namespace {
std::string field(std::string_view text) {
    if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
        return std::string(text);
    }
    std::string quoted = "\"";
    for (const char c : text) {
        quoted += c == '"' ? "\"\"" : std::string(1, c);
    }
    return quoted + "\"";
}

void write_tasks(const OpenedTrace& trace, std::ostream& out) {
    out << "source,step,kind,partition,micro_batch,skip,lane,start_ns,end_ns,bytes,half\n";
    for (const Source source : {Source::measured, Source::simulated}) {
        const SplitBackwards split(trace.timeline(source).slices);
        for (const Slice& slice : trace.timeline(source).slices) {
            const std::optional<BackwardHalf> half = split.half_of(slice.key);
            fmt::print(out, "{},{},{},{},{},{},{},{},{},{},{}\n", to_string(source), slice.key.step,
                       to_string(slice.key.kind), slice.key.partition, slice.key.micro_batch, slice.key.skip,
                       slice.lane.value(), slice.start.count(), slice.end.count(), slice.bytes,
                       half ? std::string(1, static_cast<char>(*half)) : "");
        }
    }
}

void write_steps(const OpenedTrace& trace, std::ostream& out) {
    out << "step,start_ns,end_ns,wall_start_ns,wall_end_ns,training_loss,warmup,samples,load_others,load_stolen,load_"
           "pressure,load_time_ns\n";
    for (const StepRecord& step : trace.steps) {
        const auto share = [](const std::optional<double>& value) { return value ? fmt::format("{}", *value) : ""; };
        const std::optional<MachineLoad> load = step.load ? std::optional(step.load->shares) : std::nullopt;
        fmt::print(out, "{},{},{},{},{},{},{},{},{},{},{},{}\n", step.step, step.start.count(), step.end.count(),
                   step.wall_start.count(), step.wall_end.count(),
                   std::isnan(step.training_loss) ? "" : fmt::format("{}", step.training_loss), step.warmup ? 1 : 0,
                   step.samples > 0 ? std::to_string(step.samples) : "",
                   share(load ? std::optional(load->others) : std::nullopt),
                   share(load ? std::optional(load->stolen) : std::nullopt),
                   share(load ? load->pressure : std::nullopt),
                   step.load ? std::to_string(step.load->over.count()) : "");
    }
}

void write_memory(const OpenedTrace& trace, std::ostream& out) {
    out << "lane,time_ns,allocated,peak,reserved,task";
    for (std::size_t k = 0; k < kNumMemoryCategories; ++k) {
        out << "," << to_string(static_cast<MemoryCategory>(k));
    }
    out << "\n";
    for (const MemorySample& sample : trace.memory) {
        const auto task = sample.task == -1 ? std::nullopt : unpack(static_cast<std::uint64_t>(sample.task));
        fmt::print(out, "{},{},{},{},{},{}", sample.lane.value(), sample.time.count(), sample.allocated, sample.peak,
                   sample.reserved, task ? field(to_string(*task)) : "");
        for (std::size_t k = 0; k < kNumMemoryCategories; ++k) {
            const Bytes bytes = sample.composition[static_cast<MemoryCategory>(k)];
            out << "," << (bytes == MemoryBreakdown::kUnknown ? "" : std::to_string(bytes));
        }
        out << "\n";
    }
}

void write_ranges(const OpenedTrace& trace, std::ostream& out) {
    out << "group,track,kind,name,category,row,start_ns,end_ns,correlation\n";
    for (const RangeTrack& track : trace.tracks) {
        const std::string where = fmt::format("{},{},{}", field(track.group), field(track.name), to_string(track.kind));
        for (const TraceRange& range : track.ranges) {
            fmt::print(out, "{},{},{},{},{},{},{}\n", where, field(trace.names[range.name]),
                       field(trace.names[range.category]), range.row, range.start.count(), range.end.count(),
                       range.correlation == 0 ? "" : std::to_string(range.correlation));
        }
    }
}

struct TableWriter {
    std::string_view name;
    void (*write)(const OpenedTrace& trace, std::ostream& out);
};
/// In the order of CsvTable.
constexpr TableWriter kTables[] = {
    {"tasks", write_tasks}, {"steps", write_steps}, {"memory", write_memory}, {"ranges", write_ranges}};
}  // namespace

std::string_view to_string(CsvTable table) {
    return kTables[static_cast<std::size_t>(table)].name;
}

std::optional<CsvTable> parse_csv_table(std::string_view name) {
    const auto* const found = std::find_if(std::begin(kTables), std::end(kTables),
                                           [&](const TableWriter& table) { return table.name == name; });
    return found == std::end(kTables) ? std::nullopt : std::optional(static_cast<CsvTable>(found - kTables));
}

void export_csv(const OpenedTrace& trace, CsvTable table, std::ostream& out) {
    kTables[static_cast<std::size_t>(table)].write(trace, out);
    if (!out.flush()) {
        throw TraceError("cannot write the CSV: the stream failed; check the disk's free space");
    }
}
}  // namespace pipescope
