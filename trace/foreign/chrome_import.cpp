#include "trace/foreign/chrome_import.h"

#include "base/library_message.h"
#include "base/printable.h"
#include "base/quantities.h"
#include "trace/foreign/chrome_json.h"
#include "trace/foreign/chrome_tracks.h"
#include "trace/foreign/gzip_stream.h"
#include "trace/foreign/json_mending.h"
#include "trace/store/slice_row.h"
#include "trace/store/sqlite_guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

namespace pipescope {
namespace {
using nlohmann::json;

constexpr std::int64_t kMeasuredProcess = 1;
constexpr std::string_view kProfileFormat = "pipescope.profile";
constexpr std::int64_t kSimulatedProcess = 2;
constexpr std::int64_t kMostTime = std::int64_t{1} << 62;

/// The ranks of the pipeline, from "pg_config", PyTorch's list of process groups. A group of ranks that form a pipeline
/// is named "pp", or "mesh_pp" in a device mesh. Empty without such a group, or if the list has another form.
std::vector<int> pipeline_ranks(const json& distributed, int rank) {
    try {
        for (const json& group : distributed.value("pg_config", json::array())) {
            const std::string name = group.value("pg_desc", "");
            const auto ranks = group.value("ranks", std::vector<int>());
            if ((name == "pp" || name.ends_with("_pp")) && std::ranges::find(ranks, rank) != ranks.end()) {
                return ranks;
            }
        }
    } catch (const json::exception&) {
        return {};
    }
    return {};
}

/// The rank that "distributedInfo" names.
struct NamedRank {
    std::optional<RecordingRank> rank;  ///< empty if it names no usable rank
    std::string fault;                  ///< why it is not usable, if there is such a field
};

NamedRank named_rank(const json& distributed) {
    NamedRank named;
    if (!distributed.is_object()) {
        return named;
    }
    const auto number = [&](const char* key, std::int64_t least, std::int64_t most) -> std::optional<int> {
        constexpr std::size_t kMostText = 40;
        const auto found = distributed.find(key);
        if (found == distributed.end()) {
            named.fault = fmt::format("has no {}", key);
        } else if (!found->is_number_integer() || *found < least || *found > most) {
            const std::string text = found->dump(-1, ' ', false, json::error_handler_t::replace);
            named.fault = fmt::format("has the {} {}; it must be a whole number from {} to {}", key,
                                      printable(text.substr(0, kMostText)), least, most);
        } else {
            return found->get<int>();
        }
        return std::nullopt;
    };
    const std::optional<int> size = number("world_size", 1, kMostPartitions);
    const std::optional<int> rank = size ? number("rank", 0, *size - 1) : std::nullopt;
    if (rank) {
        const std::vector<int> ranks = pipeline_ranks(distributed, *rank);
        const auto own = std::ranges::find(ranks, *rank);
        named.rank = {*rank, *size, own == ranks.end() ? *rank : static_cast<int>(own - ranks.begin()), ranks,
                      distributed.value("backend", json()) == "nccl"};
    }
    return named;
}

/// Names by number, from a list such as [{"id": 0, "name": "NVIDIA H200"}]. Skips entries that are not devices.
std::map<std::int64_t, std::string> device_names(const json& devices) {
    std::map<std::int64_t, std::string> names;
    for (const json& device : devices.is_array() ? devices : json::array()) {
        const bool is_device = device.is_object() && device.contains("id") && device["id"].is_number_integer() &&
                               device.contains("name") && device["name"].is_string();
        if (is_device && !device["name"].get<std::string>().empty()) {
            names.emplace(device["id"].get<std::int64_t>(), device["name"].get<std::string>());
        }
    }
    return names;
}

/// Converts events of PipeScope's own export back into rows. Leaves other events to the tracks.
class ChromeImport : public ChromeListener {
public:
    ChromeImport(const std::filesystem::path& path, OpenedTrace& trace) : path_(path), trace_(trace) {}

    void event(const ChromeEvent& event, const ChromeHeader& header) override {
        if (event.index == 0) {
            read_stamp(header);
        }
        if (!ours_ || !take(event)) {
            tracks_.add(event);
        }
    }

    void finish(const ChromeHeader& header) {
        if (!ours_ && is_stamped(header)) {
            read_stamp(header);  // needed for an export of an empty trace
        }
        if (header.cut_off && ours_) {
            refuse("it ends too early, and such an export is read whole or not at all");
        }
        tracks_.set_devices(device_names(header.devices));
        if (header.cut_off) {
            trace_.diagnostics.push_back(
                {"warning", "import",
                 "the file was cut off, as by a killed program or an incomplete copy: the events before the cut were "
                 "read"});
        }
        if (header.mended > 0) {
            trace_.diagnostics.push_back(
                {"warning", "import",
                 fmt::format(
                     "the file is no valid JSON: {} mended on reading: bytes of a string that are no UTF-8 or no "
                     "text became U+FFFD or a space; numbers that are none or too large, such as NaN and 1e309, "
                     "and commas before a closing bracket were left out",
                     counted(header.mended, "place was", "places were"))});
        }
        const Nanoseconds moved = tracks_.finish(trace_, ours_);
        if (ours_) {
            read_rows(header.other);
            sort_slices(trace_.measured);
            sort_slices(trace_.simulated);
            return;
        }
        trace_.origin = header.is_kineto ? TraceOrigin::kineto : TraceOrigin::chrome;
        const NamedRank named = named_rank(header.distributed);
        trace_.rank = named.rank;
        if (!named.fault.empty()) {
            trace_.diagnostics.push_back(
                {"warning", "import",
                 fmt::format("{} {}; so the rank that recorded the file is not known", kRankUnknown, named.fault)});
        }
        trace_.first_time = moved;
        constexpr std::int64_t kFirstPlausible =
            1'000'000'000'000'000'000;  // the year 2001 in ns: too large for a time since a start
        if (header.base_time || moved.count() > kFirstPlausible) {
            std::int64_t epoch = 0;
            if (!__builtin_add_overflow(header.base_time.value_or(0), moved.count(), &epoch)) {
                set_start(epoch);
            }
        }
    }

private:
    static bool is_stamped(const ChromeHeader& header) {
        return header.other.is_object() && header.other.contains("pipescope");
    }

    /// The start is not known where its time is beyond 146 years: differences of such times overflow.
    void set_start(std::int64_t utc_ns) {
        constexpr std::int64_t kMost = std::int64_t{1} << 62;
        if (utc_ns > -kMost && utc_ns < kMost) {
            trace_.utc_epoch_ns = utc_ns;
        }
    }

    [[noreturn]] void refuse(const std::string& what) const {
        throw TraceFormatError(quoted(path_) + " is damaged: " + what + "; export it again");
    }

    void read_stamp(const ChromeHeader& header) {
        if (!is_stamped(header)) {
            return;
        }
        const json& stamp = header.other.at("pipescope");
        if (!stamp.is_object() || stamp.value("format", json()) != kChromeExportFormat ||
            !stamp.value("version", json()).is_number_integer()) {
            refuse("its stamp otherData.pipescope is " +
                   stamp.dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 80));
        }
        if (const auto version = stamp.at("version").get<std::int64_t>(); version > kChromeExportVersion) {
            throw TraceFormatError(
                fmt::format("{} is a Chrome export of version {}; this PipeScope reads up to version {}; "
                            "use the newer PipeScope that wrote it",
                            quoted(path_), version, kChromeExportVersion));
        }
        ours_ = true;
        trace_.origin = TraceOrigin::pipescope_chrome;
    }

    /// True if the event belongs to our own export.
    bool take(const ChromeEvent& event) {
        const bool measured = event.process == ChromeId{kMeasuredProcess, ""} ||
                              (event.process.text.empty() && event.process.number >= kFirstRankProcess);
        const bool simulated = event.process == ChromeId{kSimulatedProcess, ""};
        if (!measured && !simulated) {
            return false;
        }
        if (event.phase == 'X' && (!event.start || !event.duration)) {
            refuse(fmt::format("traceEvents[{}] has no time", event.index));
        }
        if (event.phase == 'X' && *event.duration < 0) {
            refuse(fmt::format("traceEvents[{}] takes {} ns; it cannot end before it starts", event.index,
                               *event.duration));
        }
        if (event.phase == 'X' && event.category == "step") {
            trace_.steps.push_back(step(event));
        } else if (event.phase == 'X') {
            (measured ? trace_.measured : trace_.simulated).slices.push_back(slice(event));
        } else if (event.phase == 'C' && !event.sample.empty()) {
            trace_.memory.push_back(memory_sample(event));
        }
        return true;
    }

    StepRecord step(const ChromeEvent& event) const {
        const ChromeArguments& arguments = event.arguments;
        const ChromeArgument* loss = arguments.find("training_loss");
        const bool is_number = loss != nullptr && (loss->type == ChromeArgument::Type::integer ||
                                                   loss->type == ChromeArgument::Type::real);
        constexpr std::int64_t kMostStep = std::numeric_limits<std::int32_t>::max();
        return {static_cast<std::int32_t>(number(event, "step", -1, kMostStep)),
                Nanoseconds{number(event, "start_ns", 0, kMostTime)},
                Nanoseconds{number(event, "end_ns", 0, kMostTime)},
                Nanoseconds{*event.start},
                Nanoseconds{*event.start + *event.duration},
                is_number ? loss->real : std::numeric_limits<double>::quiet_NaN(),
                arguments.integer_or("warmup", 0) != 0,
                std::max<std::int64_t>(0, number(event, "samples", 0, kMostTime))};
    }

    /// The argument, or `otherwise` if there is none. Refuses values other than whole numbers from -`most` to `most`.
    std::int64_t number(const ChromeEvent& event, const char* key, std::int64_t otherwise, std::int64_t most) const {
        const ChromeArgument* found = event.arguments.find(key);
        if (found == nullptr || found->type == ChromeArgument::Type::null) {
            return otherwise;
        }
        if (found->type != ChromeArgument::Type::integer || found->integer < -most || found->integer > most) {
            refuse(fmt::format(
                "traceEvents[{}] has the {} {}; it must be a whole number of at most {}", event.index, key,
                found->type == ChromeArgument::Type::text ? found->text : fmt::format("{}", found->real), most));
        }
        return found->integer;
    }

    void check(const ChromeEvent& event, const std::string& fault) const {
        if (!fault.empty()) {
            refuse(fmt::format("traceEvents[{}] {}", event.index, fault));
        }
    }

    Slice slice(const ChromeEvent& event) const {
        const auto kind = parse_task_kind(event.arguments.text_or_empty("kind"));
        if (!kind) {
            refuse(fmt::format("traceEvents[{}] has the kind '{}'; it must be that of a task", event.index,
                               event.arguments.text_or_empty("kind")));
        }
        const auto id = [&](const char* key) {
            return static_cast<std::int32_t>(number(event, key, -1, std::numeric_limits<std::int32_t>::max()));
        };
        const Slice slice{{id("step"), *kind, id("partition"), id("micro_batch"), id("skip")},
                          LaneId{id("lane")},
                          Nanoseconds{*event.start},
                          Nanoseconds{*event.start + *event.duration},
                          number(event, "bytes", 0, kMostTime)};
        check(event, fault_of(slice));
        return slice;
    }

    MemorySample memory_sample(const ChromeEvent& event) const {
        if (!event.start) {
            refuse(fmt::format("traceEvents[{}] has no time", event.index));
        }
        const ChromeArguments& values = event.sample;
        const std::int64_t lane = values.integer_or("lane", 0);
        check(event,
              std::in_range<std::int32_t>(lane) ? "" : fmt::format("has the lane {}; it must fit 32 bits", lane));
        MemorySample sample{LaneId{lane},
                            Nanoseconds{*event.start},
                            values.integer_or("allocated", 0),
                            values.integer_or("peak", 0),
                            values.integer_or("reserved", 0),
                            values.integer_or("task", -1)};
        for (std::size_t k = 0; k < kNumMemoryCategories; ++k) {
            const auto category = static_cast<MemoryCategory>(k);
            sample.composition[category] = values.integer_or(to_string(category), MemoryBreakdown::kUnknown);
        }
        check(event, fault_of(sample));
        return sample;
    }

    /// Reads the tables without times, under otherData.
    void read_rows(const json& other) {
        try {
            for (const auto& [key, value] : other.at("run").items()) {
                trace_.run.emplace(key, value.get<std::string>());
            }
            if (other.contains("profile")) {
                trace_.profile_json = other.at("profile").get<std::string>();
            }
            if (other.contains("utc_epoch_ns")) {
                set_start(other.at("utc_epoch_ns").get<std::int64_t>());
            }
            for (Timeline* timeline : {&trace_.measured, &trace_.simulated}) {
                for (const json& lane : other.at("lanes").at(std::string(to_string(timeline->source)))) {
                    timeline->lanes.push_back({lane.at(0).get<std::string>(), lane.at(1).get<std::string>()});
                }
            }
            for (const json& row : other.at("drops")) {
                trace_.drops.push_back({row.at(0), row.at(1), row.at(2), row.at(3), row.at(4), row.at(5)});
            }
            for (const json& row : other.at("diagnostic_rows")) {
                trace_.diagnostics.push_back({row.at(0), row.at(1), row.at(2)});
            }
            for (const json& row : other.at("clocks")) {
                trace_.clocks.push_back({row.at(0), row.at(1), row.at(2), row.at(3)});
            }
            for (const json& row : other.at("overheads")) {
                trace_.overheads.push_back({row.at(0), row.at(1), row.at(2)});
            }
        } catch (const json::exception& error) {
            refuse(fmt::format("its otherData: {}", printable(without_error_number(error.what()))));
        }
        for (Timeline* timeline : {&trace_.measured, &trace_.simulated}) {
            for (const Slice& slice : timeline->slices) {
                if (slice.lane.index() >= timeline->lanes.size()) {
                    refuse(fmt::format("a task is on lane {} of {}", slice.lane.value(), timeline->lanes.size()));
                }
            }
        }
        const std::size_t lanes = std::max(trace_.measured.lanes.size(), trace_.simulated.lanes.size());
        for (const MemorySample& sample : trace_.memory) {
            if (lanes > 0 && sample.lane.index() >= lanes) {
                refuse(fmt::format("a memory sample is on lane {} of {}", sample.lane.value(), lanes));
            }
        }
    }

    const std::filesystem::path& path_;
    OpenedTrace& trace_;
    ChromeTracks tracks_;
    bool ours_ = false;
};

template <class Read>
auto read(const std::filesystem::path& path, Read read_from, const ReadProgress& progress = {}) {
    try {
        return read_from(*open_maybe_packed(path, progress));
    } catch (const json::exception& error) {
        throw TraceFormatError(quoted(path) + " is damaged: " + std::string(without_error_number(error.what())) +
                               "; download or export it again");
    } catch (const UnreadableJson& error) {
        throw TraceFormatError(quoted(path) + " cannot be read: " + error.what());
    }
}

std::string whole(const std::filesystem::path& path) {
    const auto in = open_maybe_packed(path);
    return {std::istreambuf_iterator<char>(*in), {}};
}
}  // namespace

json event_of_chrome(const std::filesystem::path& path, std::size_t index) {
    return read(path, [index](std::istream& in) { return read_chrome_event(in, index); });
}

namespace {
/// True if the file has an event that becomes a range. Reads up to the first one.
bool holds_range(const std::filesystem::path& path) {
    struct Found {};
    /// Throws Found.
    class : public ChromeListener {
        void event(const ChromeEvent& event, const ChromeHeader&) override {
            constexpr std::string_view kPhases = "XBbiIRn";
            if (event.start && kPhases.find(event.phase) != std::string_view::npos) {
                throw Found();
            }
        }
    } first_range;
    try {
        read(path, [&](std::istream& in) { return read_chrome_json(in, first_range); });
    } catch (const Found&) {
        return true;
    }
    return false;
}
}  // namespace

RankOfFile rank_of_file(const std::filesystem::path& path) {
    /// Ignores the events.
    class : public ChromeListener {
        void event(const ChromeEvent&, const ChromeHeader&) override {}
    } nobody;
    ChromeHeader header = read(path, [](std::istream& in) { return read_chrome_header(in); });
    const bool may_follow = header.has_events && !header.is_list && !header.is_kineto && header.other.is_null();
    if (may_follow && header.format.empty()) {  // the profiler's own fields may follow the events
        header = read(path, [&](std::istream& in) { return read_chrome_json(in, nobody); });
    }
    const std::optional<RecordingRank> rank = named_rank(header.distributed).rank;
    const bool is_profile = header.format == kProfileFormat;  // other formats of ours, such as notes, are not traces
    return {header.has_events || is_profile, rank, rank || is_profile || (header.has_events && holds_range(path))};
}

OpenedTrace import_chrome(const std::filesystem::path& path, const ReadProgress& progress) {
    OpenedTrace trace;
    ChromeImport import(path, trace);
    const ChromeHeader header = read(
        path, [&](std::istream& in) { return read_chrome_json(in, import); }, progress);
    if (header.format == kProfileFormat) {
        trace.origin = TraceOrigin::profile;
        trace.profile_json = whole(path);
        return trace;
    }
    if (!header.has_events) {
        throw TraceFormatError(
            quoted(path) +
            " is JSON, but neither a trace nor a profile: it has no list \"traceEvents\"; give a trace "
            "of PipeScope, of nsys, or of PyTorch's profiler");
    }
    import.finish(header);
    return trace;
}
}  // namespace pipescope
