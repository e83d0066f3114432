#include "trace/merge/merge_rank_files.h"

#include "base/quantities.h"
#include "base/stop_check.h"
#include "base/work_threads.h"
#include "trace/foreign/chrome_import.h"
#include "trace/foreign/chrome_tracks.h"
#include "trace/foreign/task_recognition.h"
#include "trace/merge/clock_alignment.h"
#include "trace/open_trace.h"
#include "trace/store/cupti_rows.h"
#include "trace/store/process_json.h"
#include "trace/store/sqlite_guard.h"
#include "trace/store/sqlite_insert.h"
#include "trace/store/trace_file.h"
#include "trace/store/trace_schema.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <re2/re2.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <exception>
#include <fstream>
#include <map>
#include <set>
#include <span>
#include <thread>
#include <type_traits>
#include <utility>

namespace pipescope {
namespace {
namespace fs = std::filesystem;

struct RankPart {
    fs::path path;
    OpenedTrace trace;
    RecognizedTasks found;
    RankClock clock;
    bool bound_known = true;

    int rank() const { return trace.rank ? trace.rank->rank : 0; }
    int size() const { return trace.rank ? trace.rank->size : 1; }
};

/// True for a short file with a JSON value that is neither an object nor a list, such as 3.
bool is_plain_json_value(const fs::path& path) {
    constexpr std::uintmax_t kMostBytes = 1 << 12;
    std::error_code unknown;
    const std::uintmax_t size = fs::is_regular_file(path, unknown) ? fs::file_size(path, unknown) : 0;
    if (unknown || size == 0 || size > kMostBytes || looks_like_json(path)) {
        return false;
    }
    std::ifstream file(path, std::ios::binary);
    return nlohmann::json::accept(file);
}

/// Why a file is not a rank's trace: empty, as after a full disk, or another kind of JSON. Empty if it may be a trace.
std::string why_no_trace(const fs::path& path) {
    std::error_code unknown;
    if (fs::is_regular_file(path, unknown) && fs::file_size(path, unknown) == 0 && !unknown) {
        return "is empty";
    }
    const bool is_other_json = looks_like_json(path) ? !rank_of_file(path).is_trace : is_plain_json_value(path);
    return is_other_json ? "is JSON without a list \"traceEvents\"" : "";
}

/// Reads a rank's file. Returns nothing, and adds a warning, if it is one of several files and holds nothing to show.
std::optional<RankPart> open_rank_file(const fs::path& path, bool alone, const ReadProgress& progress,
                                       std::vector<std::string>& warnings) {
    const auto leave_out = [&](const std::string& why) {
        warnings.push_back(fmt::format("{} {}; it is left out; if it is the file of a rank, record that rank again",
                                       quoted(path), why));
        return std::nullopt;
    };
    const auto refuse = [&](const std::string& why) { throw TraceFormatError(quoted(path) + " " + why); };
    OpenOptions options;
    options.find_tasks = false;
    options.progress = progress;
    RankPart part{path, {}, {}, RankClock()};
    try {
        if (const std::string why = alone ? std::string() : why_no_trace(path); !why.empty()) {
            return leave_out(why);
        }
        part.trace = open_trace(path, options);
    } catch (const Error& fault) {
        if (alone) {
            throw;
        }
        return leave_out(fmt::format("cannot be read ({})", fault.what()));
    }
    const TraceOrigin origin = part.trace.origin;
    const bool is_own = origin == TraceOrigin::pipescope || origin == TraceOrigin::pipescope_chrome;
    if (alone && is_own) {
        refuse(fmt::format(
            "is {}; import makes traces for SQL of other programs' traces; 'pipescope view' and export take it as it "
            "is{}",
            to_string(origin),
            origin == TraceOrigin::pipescope ? "" : "; for SQL, use the trace that it was exported from"));
    }
    if (alone && origin == TraceOrigin::profile) {
        refuse("is a profile, not a trace; give a trace of another program");
    }
    if (origin == TraceOrigin::profile || is_own) {
        refuse(
            fmt::format("is {}, and the others are traces of another program; a timeline shows one run; leave it out",
                        to_string(origin)));
    }
    if (const std::string missing = missing_content(part.trace); !missing.empty() && alone) {
        refuse("cannot be shown: " + missing);
    } else if (!missing.empty()) {
        return leave_out("cannot be shown: " + missing);
    }
    return part;
}

// The work's shares of the time, for its progress.
constexpr double kShareOfReading = 0.5;
constexpr double kShareOfFinding = 0.05;  // of the tasks
constexpr unsigned kMostReaders = 4;      // each holds a file that it is reading, besides the files that were read

/// The share of the files' bytes that was read.
class BytesRead {
public:
    explicit BytesRead(const std::vector<fs::path>& files) : files_(files.size()) {
        for (std::size_t k = 0; k < files.size(); ++k) {
            std::error_code unknown;
            const std::uintmax_t size = fs::file_size(files[k], unknown);
            files_[k].bytes = unknown ? 0 : static_cast<double>(size);
            all_ += files_[k].bytes;
        }
    }
    void set(std::size_t file, double share) { files_[file].share = share; }
    double share() const {
        double read = 0;
        for (const File& file : files_) {
            read += file.bytes * file.share;
        }
        return all_ > 0 ? read / all_ : 0;
    }

private:
    struct File {
        double bytes = 0;
        std::atomic<double> share = 0;
    };
    std::vector<File> files_;
    double all_ = 0;
};

/// Reads the files as open_rank_file() does, several at a time. Returns those that hold something to show, with
/// warnings in the order of the files. If some cannot be used, throws the error of the first one.
std::vector<RankPart> open_rank_files(const std::vector<fs::path>& inputs, WorkThreads& threads,
                                      std::vector<std::string>& warnings) {
    struct ReadFile {
        std::optional<RankPart> part;
        std::vector<std::string> warnings;
        std::exception_ptr failure;
    };
    std::vector<ReadFile> files(inputs.size());
    std::atomic<std::size_t> first_failed = inputs.size();
    BytesRead bytes(inputs);
    threads.run(
        inputs.size(),
        [&](std::size_t k) {
            if (k > first_failed) {
                return;
            }
            ReadFile& file = files[k];
            try {
                file.part = open_rank_file(
                    inputs[k], false, [&](double share) { bytes.set(k, share); }, file.warnings);
            } catch (const Error&) {
                file.failure = std::current_exception();
                for (std::size_t first = first_failed; k < first && !first_failed.compare_exchange_weak(first, k);) {
                }
            }
            bytes.set(k, 1);
        },
        kShareOfReading, [&] { return bytes.share(); });
    std::vector<RankPart> parts;
    for (ReadFile& file : files) {
        if (file.failure) {
            std::rethrow_exception(file.failure);
        }
        std::ranges::move(file.warnings, std::back_inserter(warnings));
        if (file.part) {
            parts.push_back(std::move(*file.part));
        }
    }
    return parts;
}

std::vector<std::string> names_of(const std::vector<fs::path>& files) {
    std::vector<std::string> names;
    std::ranges::transform(files, std::back_inserter(names),
                           [](const fs::path& file) { return file.filename().string(); });
    return names;
}

/// The number after the last word "rank" of a file's name, as in rank3.json or trace_rank-3.sqlite. Without `by_word`,
/// the last number before the name's ending, as in job-3.sqlite.
std::optional<int> rank_in_name(const fs::path& path, bool by_word) {
    static const re2::RE2 kWord("(?i).*rank[-_. ]?(\\d{1,6}).*");
    static const re2::RE2 kNumber("(?:.*\\D)?(\\d{1,6})\\D*");
    const std::string name = path.filename().string();
    int rank = 0;
    const bool found = by_word ? re2::RE2::FullMatch(name, kWord, &rank)
                               : re2::RE2::FullMatch(name.substr(0, name.find('.', 1)), kNumber, &rank);
    return found ? std::optional(rank) : std::nullopt;
}

/// The ranks in the files' names, if each names another one. Numbers without the word "rank" may be those of processes
/// or hosts, so they only count if they are 0, 1, .. up to the number of files.
std::optional<std::vector<int>> ranks_in_names(const std::vector<fs::path>& files, bool by_word) {
    std::vector<int> ranks;
    for (const fs::path& file : files) {
        const std::optional<int> rank = rank_in_name(file, by_word);
        const bool counts = by_word || rank.value_or(0) < static_cast<int>(files.size());
        if (!rank || !counts || std::ranges::find(ranks, *rank) != ranks.end()) {
            return std::nullopt;
        }
        ranks.push_back(*rank);
    }
    return ranks;
}

/// The ranks by the partitions in the names of the files' tasks, if each partition is in one file: the file with the
/// lowest partition is of rank 0.
std::optional<std::vector<int>> ranks_by_partition(const std::vector<RankPart>& parts, const TaskRules& rules) {
    std::map<std::int32_t, std::size_t> owners;  // of each partition
    for (std::size_t k = 0; k < parts.size(); ++k) {
        for (const std::string& name : parts[k].trace.names) {
            const std::optional<RangeMeaning> meaning = rules.meaning_of(name);
            const bool is_task = meaning && meaning->role == RangeRole::task && is_compute(meaning->task);
            if (is_task && meaning->partition && owners.try_emplace(*meaning->partition, k).first->second != k) {
                return std::nullopt;
            }
        }
    }
    std::vector<int> ranks(parts.size(), -1);
    int next = 0;
    for (const auto& [partition, owner] : owners) {
        ranks[owner] = ranks[owner] < 0 ? next++ : ranks[owner];
    }
    return std::ranges::find(ranks, -1) == ranks.end() ? std::optional(ranks) : std::nullopt;
}

/// Gives the files the ranks that the user names, in the order of `inputs`.
void take_given_ranks(std::vector<RankPart>& parts, const std::vector<fs::path>& inputs,
                      const std::vector<int>& ranks) {
    if (ranks.size() != inputs.size()) {
        throw UsageError(
            fmt::format("--ranks names {} and {} given: {}; name a rank for each file, in the order of the "
                        "files",
                        counted(ranks.size(), "rank", "ranks"), counted(inputs.size(), "file is", "files are"),
                        fmt::join(names_of(inputs), ", ")));
    }
    const int size = *std::ranges::max_element(ranks) + 1;
    for (RankPart& part : parts) {
        const int rank = ranks[static_cast<std::size_t>(std::ranges::find(inputs, part.path) - inputs.begin())];
        part.trace.rank = RecordingRank{rank, size, rank};
    }
}

/// If no file says its rank, takes the ranks from the files' names, or else from their partitions.
void name_ranks(std::vector<RankPart>& parts, const TaskRules& rules, std::vector<std::string>& warnings) {
    if (parts.size() < 2 ||
        std::ranges::any_of(parts, [](const RankPart& part) { return part.trace.rank.has_value(); })) {
        return;
    }
    std::vector<fs::path> files;
    std::ranges::transform(parts, std::back_inserter(files), &RankPart::path);
    std::optional<std::vector<int>> ranks = ranks_in_names(files, true);
    ranks = ranks ? ranks : ranks_in_names(files, false);
    const char* by = ranks ? "their names" : "the partitions of their tasks";
    ranks = ranks ? ranks : ranks_by_partition(parts, rules);
    if (!ranks) {
        return;
    }
    const int size = *std::ranges::max_element(*ranks) + 1;
    for (std::size_t k = 0; k < parts.size(); ++k) {
        parts[k].trace.rank = RecordingRank{(*ranks)[k], size, (*ranks)[k]};
    }
    warnings.push_back(fmt::format(
        "the files do not say which ranks recorded them, so {} decide: {} is of rank {}; if that is wrong, name the "
        "files rank0, rank1, ..",
        by, quoted(files.front()), ranks->front()));
}

/// Leaves out files that name no rank, if the others are those of all ranks.
void leave_out_strangers(std::vector<RankPart>& parts, std::vector<std::string>& warnings) {
    std::set<int> ranks;
    int size = 0;
    for (const RankPart& part : parts) {
        if (part.trace.rank) {
            ranks.insert(part.trace.rank->rank);
            size = std::max(size, part.trace.rank->size);
        }
    }
    if (size == 0 || ranks.size() != static_cast<std::size_t>(size)) {
        return;
    }
    std::erase_if(parts, [&](const RankPart& part) {
        if (!part.trace.rank) {
            warnings.push_back(
                fmt::format("{} does not say which rank recorded it, and the other files are those of "
                            "all ranks; it is left out; move it to another folder",
                            quoted(part.path)));
        }
        return !part.trace.rank;
    });
}

void require_ranks(const std::vector<RankPart>& parts) {
    for (const RankPart& part : parts) {
        if (parts.size() < 2 || part.trace.rank) {
            continue;
        }
        const auto fault = std::ranges::find_if(part.trace.diagnostics, [](const DiagnosticRecord& each) {
            return each.source == "import" && each.text.starts_with(kRankUnknown);
        });
        throw TraceFormatError(fmt::format(
            "{} does not say which rank recorded it{}; files of several ranks are joined by \"distributedInfo\", which "
            "PyTorch's profiler writes after init_process_group, or by names such as rank0 if no file has it; if it is "
            "of another run, move it to another folder; otherwise name all files so, or give it alone",
            quoted(part.path), fault == part.trace.diagnostics.end() ? "" : ": " + fault->text));
    }
}

/// PyTorch's profiler writes baseTimeNanoseconds last, so a file that was cut off lacks it. It is equal in all ranks.
void find_missing_times(std::vector<RankPart>& parts, std::vector<std::string>& warnings) {
    std::set<std::int64_t> bases;
    for (const RankPart& part : parts) {
        if (part.trace.utc_epoch_ns) {
            bases.insert(*part.trace.utc_epoch_ns - part.trace.first_time.count());
        }
    }
    for (RankPart& part : parts) {
        if (part.trace.utc_epoch_ns || parts.size() == 1) {
            continue;
        }
        std::int64_t epoch = 0;
        if (bases.size() != 1 || __builtin_add_overflow(*bases.begin(), part.trace.first_time.count(), &epoch)) {
            throw TraceFormatError(
                fmt::format("{} does not say when it was recorded; files of several ranks are placed by "
                            "\"baseTimeNanoseconds\", and those of the other ranks {}; give it alone",
                            quoted(part.path), bases.empty() ? "lack it too" : "differ"));
        }
        part.trace.utc_epoch_ns = epoch;
        warnings.push_back(fmt::format(
            "{} does not say when it was recorded; it is placed by \"baseTimeNanoseconds\" of the other ranks",
            quoted(part.path)));
    }
}

void require_different_ranks(const std::vector<RankPart>& parts) {
    for (std::size_t k = 1; k < parts.size(); ++k) {
        const RankPart& before = parts[k - 1];
        if (before.rank() == parts[k].rank()) {
            throw TraceFormatError(fmt::format("{} and {} are both of rank {}; each rank counts once; leave one out",
                                               quoted(before.path), quoted(parts[k].path), before.rank()));
        }
        if (parts[k].size() != before.size()) {
            throw TraceFormatError(fmt::format(
                "{} is of a run of {} ranks and {} of one of {}; a timeline shows one run; give files of one run",
                quoted(before.path), before.size(), quoted(parts[k].path), parts[k].size()));
        }
    }
}

/// For a run whose given ranks do not exchange messages with the missing ranks: those may be replicas of this pipeline.
std::vector<std::string> missing_replicas(const std::vector<RankPart>& parts, bool alone) {
    MissingRanks missing;
    missing.size = parts.front().size();
    for (int rank = 0; rank < missing.size; ++rank) {
        if (std::ranges::none_of(parts, [&](const RankPart& part) { return part.rank() == rank; })) {
            missing.ranks.push_back(rank);
        }
    }
    if (missing.ranks.empty() || alone) {
        return {};
    }
    return {
        fmt::format("{} {} not given; if they belong to this pipeline, their tasks are missing and idle time is "
                    "wrong; give their files too",
                    missing.text(), missing.ranks.size() == 1 ? "is" : "are")};
}

// ---- Clocks ----

std::vector<const RankTasks*> tasks_of(const std::vector<RankPart>& parts) {
    std::vector<const RankTasks*> ranks;
    for (const RankPart& part : parts) {
        std::ranges::transform(part.found.ranks, std::back_inserter(ranks),
                               [](const RankTasks& rank) { return &rank; });
    }
    return ranks;
}

/// Replicas send messages with the same names. Each pipeline has its own.
using PipelineOfRank = std::map<const RankTasks*, std::size_t>;

/// Calls `take(sending part, its end, receiving part, its end)` for each message with its ends in different files, in
/// the order of the receiving parts. Leaves out ranks_of_unknown_steps(), whose messages cannot be matched for certain.
template <class Take>
void for_each_message_between(const std::vector<RankPart>& parts, const PipelineOfRank& pipelines, const Take& take) {
    const std::set<int> unknown = ranks_of_unknown_steps(tasks_of(parts));
    const auto for_each_rank = [&](const auto& visit) {
        for (std::size_t k = 0; k < parts.size(); ++k) {
            for (const RankTasks& rank : parts[k].found.ranks) {
                if (!unknown.contains(rank.rank)) {
                    visit(k, rank);
                }
            }
        }
    };
    std::map<std::pair<std::size_t, TaskKey>, std::pair<std::size_t, MessageEnd>> sent;  // by pipeline
    for_each_rank([&](std::size_t part, const RankTasks& rank) {
        for (const auto& [copy, end] : rank.sent) {
            sent.emplace(std::pair(pipelines.at(&rank), copy), std::pair(part, end));
        }
    });
    for_each_rank([&](std::size_t part, const RankTasks& rank) {
        for (const auto& [copy, end] : rank.arrived) {
            const auto from = sent.find({pipelines.at(&rank), copy});
            if (from != sent.end() && from->second.first != part) {
                take(from->second.first, from->second.second, part, end);
            }
        }
    });
}

std::vector<ClockMessage> messages_between(const std::vector<RankPart>& parts, const PipelineOfRank& pipelines) {
    std::vector<ClockMessage> messages;
    for_each_message_between(
        parts, pipelines,
        [&](std::size_t sender, const MessageEnd& sent, std::size_t receiver, const MessageEnd& came) {
            messages.push_back({sender, receiver, sent.time, came.time});
        });
    return messages;
}

/// Both kernels of a message of NCCL end together, within microseconds. Returns two messages for each pair of clocks
/// whose kernels always do, as if the earliest and the latest end were messages. These bound errors that are smaller
/// than a true message's time.
std::vector<ClockMessage> agreeing_ends(const std::vector<RankPart>& parts, const PipelineOfRank& pipelines,
                                        std::span<const Nanoseconds> offsets) {
    constexpr Nanoseconds kMostSpread{50'000};  // beyond, the ends depend on more than the clocks
    constexpr std::size_t kFewest = 4;
    struct Pair {
        std::size_t count = 0;
        ClockMessage least, most;  // from the clock of lower index to the other
        Nanoseconds low = Nanoseconds::max();
        Nanoseconds high = Nanoseconds::min();
    };
    std::map<std::pair<std::size_t, std::size_t>, Pair> pairs;
    for_each_message_between(
        parts, pipelines,
        [&](std::size_t sender, const MessageEnd& sent, std::size_t receiver, const MessageEnd& came) {
            if (!sent.ended || !came.ended) {
                return;
            }
            const ClockMessage message = sender < receiver ? ClockMessage{sender, receiver, *sent.ended, *came.ended}
                                                           : ClockMessage{receiver, sender, *came.ended, *sent.ended};
            Pair& pair = pairs[{message.sender, message.receiver}];
            const Nanoseconds later = message.came + offsets[message.receiver] - message.sent - offsets[message.sender];
            ++pair.count;
            pair.least = later < pair.low ? message : pair.least;
            pair.most = later > pair.high ? message : pair.most;
            pair.low = std::min(pair.low, later);
            pair.high = std::max(pair.high, later);
        });
    std::vector<ClockMessage> messages;
    for (const auto& [clocks, pair] : pairs) {
        if (pair.count >= kFewest && pair.high - pair.low <= kMostSpread) {
            messages.push_back(pair.most);
            messages.push_back({pair.least.receiver, pair.least.sender, pair.least.came, pair.least.sent});
        }
    }
    return messages;
}

std::vector<RecordingRank> given_ranks(const std::vector<RankPart>& parts) {
    std::vector<RecordingRank> given;
    for (const RankPart& part : parts) {
        if (part.trace.rank) {
            given.push_back(*part.trace.rank);
        }
    }
    return given;
}

/// Returns by how much the earliest message arrives before it was sent; 0 if none does.
Nanoseconds align_parts(std::vector<RankPart>& parts, MergedTrace& merged) {
    std::vector<Nanoseconds> offsets;
    for (const RankPart& part : parts) {
        offsets.emplace_back(part.trace.utc_epoch_ns.value_or(0) - parts.front().trace.utc_epoch_ns.value_or(0));
    }
    const std::vector<const RankTasks*> ranks = tasks_of(parts);
    const RankPipelines found = pipelines_of(ranks, given_ranks(parts));
    PipelineOfRank pipelines;
    std::set<int> left_out;  // replicas
    for (std::size_t k = 0; k < ranks.size(); ++k) {
        pipelines.emplace(ranks[k], found.of_rank[k]);
        if (found.of_rank[k] != found.shown) {
            left_out.insert(ranks[k]->rank);
        }
    }
    const std::vector<ClockMessage> messages = messages_between(parts, pipelines);
    WallClocks clocks = align_wall_clocks(offsets, messages, agreeing_ends(parts, pipelines, offsets));
    merged.copies = static_cast<std::size_t>(std::ranges::count_if(
        messages, [&](const ClockMessage& each) { return !left_out.contains(parts[each.sender].rank()); }));
    merged.largest_shift = clocks.aligned.largest_shift;
    constexpr std::chrono::seconds kMostPlausible{1};  // a time service keeps hosts within milliseconds
    std::vector<int> unchecked;
    for (std::size_t k = 0; k < parts.size(); ++k) {
        parts[k].clock = clocks.aligned.clocks[k];
        parts[k].bound_known = clocks.checked[k] && !clocks.aligned.contradicted[k];
        if (!clocks.checked[k] && !left_out.contains(parts[k].rank())) {
            unchecked.push_back(parts[k].rank());
        }
        if (const Nanoseconds shift = parts[k].clock.to_rank_0(Nanoseconds{0}) - offsets[k];
            std::chrono::abs(shift) > kMostPlausible) {
            merged.warnings.push_back(
                fmt::format("the messages move the clock of rank {} by {:.3f} s; clocks of one cluster differ by less "
                            "than a second; check that the files are of one run",
                            parts[k].rank(), static_cast<double>(shift.count()) / 1e9));
        }
    }
    if (!unchecked.empty()) {
        merged.warnings.push_back(fmt::format(
            "the {} of {} {} could not be checked, because no messages in both directions were found; times are placed "
            "by the wall clocks of the hosts, which may differ by milliseconds or more",
            unchecked.size() == 1 ? "clock" : "clocks", unchecked.size() == 1 ? "rank" : "ranks",
            fmt::join(unchecked, ", ")));
    }
    if (clocks.aligned.impossible > 0) {
        merged.warnings.push_back(
            fmt::format("{} before {} sent, by up to {:.1f} us: the clocks drift or could not be checked, or the "
                        "files are of different runs; do not trust times across ranks",
                        counted(clocks.aligned.impossible, "message arrives", "messages arrive"),
                        clocks.aligned.impossible == 1 ? "it was" : "they were",
                        static_cast<double>(clocks.aligned.worst.count()) / 1e3));
    }
    return clocks.aligned.worst;
}

/// The rank's tasks in the time of the merged trace.
RankTasks on_clock(RankTasks rank, const RankClock& clock) {
    const auto move = [&](Nanoseconds& time) { time = clock.to_rank_0(time); };
    for (Slice& slice : rank.tasks) {
        move(slice.start);
        move(slice.end);
    }
    for (auto* ends : {&rank.sent, &rank.arrived}) {
        for (auto& [copy, end] : *ends) {
            move(end.time);
            for (std::optional<Nanoseconds>* time : {&end.began, &end.launched, &end.ended}) {
                if (*time) {
                    move(**time);
                }
            }
        }
    }
    for (TaskOnDevice& task : rank.on_device) {
        for (Nanoseconds* time : {&task.start, &task.end, &task.launch}) {
            move(*time);
        }
        task.busy = std::min(task.busy, task.end - task.start);  // clocks may run at different speeds
        task.launch_gap = std::min(task.launch_gap, task.end - task.start - task.busy);
    }
    for (LaneWork& work : rank.lane_work) {
        move(work.start);
        move(work.end);
    }
    for (auto& [facts, kernels] : rank.collectives) {
        for (auto& [start, end] : kernels) {
            move(start);
            move(end);
        }
    }
    for (auto& [step, times] : rank.steps) {
        move(times.first);
        move(times.second);
    }
    return rank;
}

// ---- Rows ----

/// The number in "process 17 (python)"; -1 if there is none after the word, or if it is too large.
std::int64_t number_after(std::string_view word, std::string_view text) {
    constexpr std::int64_t kMostId = 0xff'ffff;  // 24 bits of a global thread id
    if (!text.starts_with(word)) {
        return -1;
    }
    const char* const end = text.data() + text.size();
    std::int64_t number = 0;
    const auto [rest, error] = std::from_chars(text.data() + word.size(), end, number);
    if (error != std::errc() || number < 0 || number > kMostId) {
        return -1;
    }
    return number;
}

/// Gives out numbers. If a number is taken, gives another one.
class FreeNumbers {
public:
    enum class Others { from_the_highest, from_zero };
    explicit FreeNumbers(Others others = Others::from_the_highest)
        : step_(others == Others::from_zero ? 1 : -1), other_(others == Others::from_zero ? 0 : kHighest) {}

    std::int64_t take(std::int64_t wanted) {
        while (wanted < 0 || !used_.insert(wanted).second) {
            wanted = other_;
            other_ += step_;
        }
        return wanted;
    }

private:
    static constexpr std::int64_t kHighest = 0xff'ffff;

    std::set<std::int64_t> used_;
    std::int64_t step_;
    std::int64_t other_;  // the next one if the wanted one is taken
};

/// CUPTI's kinds of a copy and of its two memories, from a name of PyTorch's profiler such as "Memcpy HtoD (Pinned ->
/// Device)", or from ours, such as "copy Host-to-Device". Other names leave them unknown.
MemcpyRecord kinds_of_copy(std::string_view name) {
    using NumberedWord = std::pair<std::string_view, int>;
    static constexpr std::array<NumberedWord, 10> kDirections = {{{"HtoD", 1},
                                                                  {"DtoH", 2},
                                                                  {"DtoD", 8},
                                                                  {"HtoH", 9},
                                                                  {"PtoP", 10},
                                                                  {"Host-to-Device", 1},
                                                                  {"Device-to-Host", 2},
                                                                  {"Device-to-Device", 8},
                                                                  {"Host-to-Host", 9},
                                                                  {"Peer-to-Peer", 10}}};
    static constexpr std::array<NumberedWord, 5> kMemories = {
        {{"Pageable", 1}, {"Pinned", 2}, {"Device", 3}, {"Array", 4}, {"Managed", 5}}};
    MemcpyRecord copy;
    for (const auto& [word, kind] : kDirections) {
        if (name.find(word) != std::string_view::npos) {
            copy.copy_kind = kind;
            break;
        }
    }
    const std::size_t arrow = name.find(" -> ");
    for (const auto& [word, kind] : kMemories) {
        if (arrow != std::string_view::npos && name.substr(0, arrow).ends_with(word)) {
            copy.source_kind = kind;
        }
        if (arrow != std::string_view::npos && name.substr(arrow + 4).starts_with(word)) {
            copy.destination_kind = kind;
        }
    }
    return copy;
}

/// Writes the ranges and counters of files, one after the other.
class RangeWriter {
public:
    explicit RangeWriter(TraceWriter& writer) : writer_(writer) {
        writer_.change([&](SQLite::Database& db) {
            db.exec(event_tables_sql());
            statements_.emplace(db);
        });
    }

    /// `tasks`: the ids of the rows of tasks.
    void write(const RankPart& part, const std::map<TaskKey, std::int64_t>& tasks, bool alone) {
        part_ = &part;
        work_.clear();
        auto task = tasks.end();
        for (const RankTasks& rank : part.found.ranks) {
            for (const WorkOfTask& each : rank.work) {
                if (task == tasks.end() || task->first != each.task) {
                    task = tasks.find(each.task);
                }
                if (task != tasks.end()) {
                    work_.push_back({each.work, task->second, each.launch, each.by_stream});
                }
            }
        }
        std::ranges::stable_sort(work_, {}, &WorkRow::work);
        next_work_ = work_.begin();
        ++file_;
        writer_.change([&](SQLite::Database&) {
            statements_->insert("PIPESCOPE_EVENT_FILE (file, path)", file_, fs::absolute(part.path).string());
        });
        suffix_ = alone ? "" : fmt::format("rank {}", part.rank());
        pids_.clear();
        correlation_base_ = next_correlation_;
        for (std::uint32_t track = 0; track < part.trace.tracks.size(); ++track) {
            write_track(track);
        }
        write_counters();
        write_arrows();
    }

private:
    /// Notes the event of the last row that was added.
    void write_event(const char* table, const TraceRange& range) {
        if (range.event != 0) {
            writer_.change([&](SQLite::Database& db) {
                const std::int64_t row = db.getLastInsertRowid();
                statements_->insert("PIPESCOPE_EVENT (activity, activityId, file, event)", table, row, file_,
                                    range.event);
            });
        }
    }

    void write_arrows() {
        const auto event_of = [&](const RangeArrow::End& end) {
            return part_->trace.tracks.at(end.track).ranges.at(end.range).event;
        };
        for (const RangeArrow& arrow : part_->trace.arrows) {
            check_stop();
            writer_.change([&](SQLite::Database&) {
                statements_->insert("PIPESCOPE_ARROW (file, fromEvent, toEvent)", file_, event_of(arrow.from),
                                    event_of(arrow.to));
            });
        }
    }

    /// "rank 1 · python"
    std::string named(const std::string& name) const {
        return suffix_.empty() ? name : name.empty() ? suffix_ : suffix_ + " · " + name;
    }
    std::int64_t time(Nanoseconds own) const { return part_->clock.to_rank_0(own).count(); }

    std::int64_t pid_of(const std::string& group) {
        const auto [found, fresh] = pids_.try_emplace(group, 0);
        if (fresh) {
            found->second = processes_.take(number_after("process ", group));
            writer_.add_process(found->second << 24, found->second, named(group));
        }
        return found->second;
    }

    std::int64_t new_thread(std::int64_t pid, const std::string& track) {
        const std::int64_t tid = threads_[pid].take(number_after("thread ", track));
        writer_.add_thread_name(pid << 24 | tid, named(track));
        return pid << 24 | tid;
    }

    std::int64_t domain_of(const std::string& category) {
        const auto [found, fresh] = domains_.try_emplace(category, static_cast<std::int64_t>(domains_.size()) + 1);
        if (fresh) {
            NvtxRecord domain;
            domain.event_type = 75;
            domain.domain_id = found->second;
            domain.text = category;
            writer_.add_range(domain);
        }
        return found->second;
    }

    std::uint32_t correlation_of(const TraceRange& range) {
        if (range.correlation == 0) {
            return 0;  // no call launched it
        }
        const std::uint32_t number = correlation_base_ + range.correlation;
        next_correlation_ = std::max(next_correlation_, number);
        return number;
    }

    /// Notes the event and the task of the last row that was added. Returns its number.
    std::int64_t write_rows(const char* activity, const char* table, const RangeArrow::End& place,
                            const TraceRange& range) {
        while (next_work_ != work_.end() && next_work_->work < place) {
            ++next_work_;
        }
        const WorkRow* const work = next_work_ != work_.end() && next_work_->work == place ? &*next_work_ : nullptr;
        std::int64_t row = 0;
        writer_.change([&](SQLite::Database& db) { row = db.getLastInsertRowid(); });
        write_event(table, range);
        if (work != nullptr) {
            writer_.change([&](SQLite::Database&) {
                statements_->insert("PIPESCOPE_DEVICE_WORK", work->task, activity, row, time(work->launch),
                                    work->by_stream ? "stream" : "thread");
            });
        }
        return row;
    }

    void write_message(std::int64_t kernel, const WorkFacts& facts) {
        const CollectiveFacts& message = facts.collective;
        if (message.type.empty()) {
            return;
        }
        const auto known = [](const auto& value) {
            return value == std::decay_t<decltype(value)>() ? std::nullopt : std::optional(value);
        };
        writer_.change([&](SQLite::Database&) {
            statements_->insert("PIPESCOPE_MESSAGE", kernel, message.type, known(facts.bytes),
                                known(message.element_type), known(message.group), known(message.group_size));
        });
    }

    void write_track(std::uint32_t number) {
        const RangeTrack& track = part_->trace.tracks[number];
        const bool on_device = track.kind == RangeTrack::Kind::stream;
        const std::int64_t pid = pid_of(track.group);
        std::optional<std::int64_t> thread;
        CuptiRows device(writer_, pid);
        for (std::uint32_t at = 0; at < track.ranges.size(); ++at) {
            const TraceRange& range = track.ranges[at];
            const std::string& category = part_->trace.names.at(range.category);
            check_stop();
            if (on_device) {
                write_work({number, at}, category, device);
                continue;
            }
            if (!thread) {
                thread = new_thread(pid, track.name);
            }
            if (range.correlation != 0 && track.kind != RangeTrack::Kind::annotations) {
                device.add(ApiRecord{time(range.start), time(range.end), category == "cuda_driver",
                                     static_cast<std::uint32_t>(*thread & 0xff'ffff), correlation_of(range),
                                     part_->trace.names.at(range.name)});
                write_event("CUPTI_ACTIVITY_KIND_RUNTIME", range);
                continue;
            }
            NvtxRecord row;
            row.start = time(range.start);
            const bool is_mark = range.end == range.start && !range.open;
            if (!is_mark && !range.open) {
                row.end = time(range.end);
            }
            row.event_type = is_mark ? 34 : track.kind == RangeTrack::Kind::other ? 60 : 59;
            row.text = part_->trace.names.at(range.name);
            row.global_tid = *thread;
            row.domain_id = category.empty() ? 0 : domain_of(category);
            writer_.add_range(row);
            write_event("NVTX_EVENTS", range);
        }
        device.finish();
    }

    void write_work(const RangeArrow::End& place, const std::string& category, CuptiRows& device) {
        const RangeTrack& track = part_->trace.tracks[place.track];
        const TraceRange& range = track.ranges[place.range];
        const auto [found, fresh] = devices_.try_emplace({part_->rank(), track.group}, 0);
        if (fresh) {
            found->second = static_cast<std::uint32_t>(gpus_.take(number_after("GPU ", track.group)));
            const std::string own = gpu_name(track.group);
            const std::string name = named(own.empty() ? track.group : own);
            device.add(DeviceRecord{found->second, name});
        }
        const auto stream = static_cast<std::uint32_t>(std::max<std::int64_t>(0, number_after("stream ", track.name)));
        const DeviceSpan span{time(range.start), time(range.end), found->second, 0, stream, correlation_of(range)};
        const WorkFacts& facts = part_->trace.facts.at(range.facts);
        if (category.ends_with("memcpy")) {
            MemcpyRecord copy = kinds_of_copy(part_->trace.names.at(range.name));
            copy.span = span;
            copy.bytes = static_cast<std::uint64_t>(facts.bytes);
            device.add(copy);
            write_rows("memcpy", "CUPTI_ACTIVITY_KIND_MEMCPY", place, range);
        } else if (category.ends_with("memset")) {
            device.add(MemsetRecord{span, 0, static_cast<std::uint64_t>(facts.bytes)});
            write_rows("memset", "CUPTI_ACTIVITY_KIND_MEMSET", place, range);
        } else {
            const std::string_view name = part_->trace.names.at(range.name);
            KernelRecord kernel{span, name, name, name};
            kernel.grid = facts.grid;
            kernel.block = facts.block;
            kernel.registers_per_thread = facts.registers;
            kernel.dynamic_shared_memory = facts.shared_memory;
            device.add(kernel);
            const std::int64_t row = write_rows("kernel", "CUPTI_ACTIVITY_KIND_KERNEL", place, range);
            write_message(row, facts);
        }
    }

    /// A sample is a mark with the counter's name, as the recorder writes it.
    void write_counters() {
        for (const CounterTrack& counter : part_->trace.counters) {
            const std::int64_t thread =
                new_thread(pid_of(counter.group.empty() ? "counters" : counter.group), counter.name);
            for (const CounterTrack::Point& point : counter.points) {
                NvtxRecord row;
                row.start = time(point.time);
                row.event_type = 34;
                row.text = counter.name;
                row.global_tid = thread;
                row.double_value = point.value;
                writer_.add_range(row);
            }
        }
    }

    struct WorkRow {
        RangeArrow::End work;
        std::int64_t task = 0;  // its row
        Nanoseconds launch{0};  // on the rank's clock
        bool by_stream = false;
    };

    TraceWriter& writer_;
    std::optional<PreparedStatements> statements_;
    const RankPart* part_ = nullptr;
    std::vector<WorkRow> work_;  // of this part, in the order in which tracks are written
    std::vector<WorkRow>::const_iterator next_work_;
    std::int64_t file_ = -1;
    std::string suffix_;
    std::map<std::string, std::int64_t> pids_;  // of this part, by group
    FreeNumbers processes_;
    FreeNumbers gpus_{FreeNumbers::Others::from_zero};  // people read these
    std::map<std::int64_t, FreeNumbers> threads_;       // by process
    std::map<std::pair<int, std::string>, std::uint32_t> devices_;
    std::map<std::string, std::int64_t> domains_;
    std::uint32_t correlation_base_ = 0;
    std::uint32_t next_correlation_ = 0;
};

/// "7 events were omitted: .. (rank 2)"
std::string named_by_rank(const std::string& text, const RankPart& part, bool alone) {
    return alone ? text : fmt::format("{} (rank {})", text, part.rank());
}

void write_tasks_on_device(const std::vector<TaskOnDevice>& tasks, const std::map<TaskKey, std::int64_t>& rows,
                           TraceWriter& writer) {
    writer.change([&](SQLite::Database& db) {
        PreparedStatements statements(db);
        for (const TaskOnDevice& each : tasks) {
            if (const auto row = rows.find(each.task); row != rows.end()) {
                statements.insert("PIPESCOPE_TASK_DEVICE", row->second, each.kernels, each.copies, each.start, each.end,
                                  each.busy, each.end - each.start - each.busy, each.start - each.launch,
                                  each.launch_gap,
                                  each.paced > Nanoseconds{0} ? std::optional(each.paced) : std::nullopt);
            }
        }
    });
}

void write_lane_work(const std::vector<LaneWork>& work, TraceWriter& writer) {
    writer.change([&](SQLite::Database& db) {
        PreparedStatements statements(db);
        for (const LaneWork& each : work) {
            statements.insert("PIPESCOPE_LANE_WORK", each.lane.value(), std::string(to_string(each.kind)), each.start,
                              each.end);
        }
    });
}

/// Rank and lanes of a process, from its PyTorch profile.
MergedProcess process_of(const RankPart& part, const OpenedTrace& joined) {
    MergedProcess process;
    process.rank = part.rank();
    process.size = part.size();
    const std::string name = fmt::format("rank {}", part.rank());
    for (std::size_t lane = 0; lane < joined.measured.lanes.size(); ++lane) {
        const std::string& own = joined.measured.lanes[lane].name;
        if (own == name || own.starts_with(name + ", ")) {
            process.lanes.emplace_back(static_cast<std::int32_t>(lane));
        }
    }
    for (const RangeTrack& track : part.trace.tracks) {
        if (const std::int64_t pid = number_after("process ", track.group); pid > 0 && process.pid == 0) {
            process.pid = pid;
        }
    }
    process.bound = part.bound_known ? std::optional(part.clock.bound()) : std::nullopt;
    return process;
}
}  // namespace

MergedTrace merge_rank_files(const std::vector<fs::path>& inputs, const fs::path& output, IfExists if_exists,
                             const TaskRules& rules, const RankReading& reading) {
    if (inputs.empty()) {
        throw TraceFormatError("no trace was given; merge joins those of all ranks of a run; give them");
    }
    const bool alone = inputs.size() == 1;
    MergedTrace merged;
    const auto tell = [&](double done) {
        if (reading.progress) {
            reading.progress(done);
        }
        return true;
    };
    const unsigned cores = std::clamp(std::thread::hardware_concurrency(), 1U, kMostReaders);
    WorkThreads threads("reading files", reading.threads > 0 ? reading.threads : static_cast<int>(cores), tell);
    std::vector<RankPart> parts;
    if (alone) {  // by the calling thread, which uses the memory again that this one gives back
        parts.push_back(
            open_rank_file(
                inputs.front(), alone, [&](double share) { tell(share * kShareOfReading); }, merged.warnings)
                .value());
    } else {
        parts = open_rank_files(inputs, threads, merged.warnings);
    }
    if (parts.empty()) {
        throw TraceFormatError(fmt::format("none of {} holds anything to show: {}",
                                           counted(inputs.size(), "file", "files"), merged.warnings.front()));
    }
    if (!reading.ranks.empty()) {
        take_given_ranks(parts, inputs, reading.ranks);
    }
    name_ranks(parts, rules, merged.warnings);
    leave_out_strangers(parts, merged.warnings);
    require_ranks(parts);
    const auto find_tasks = [&](std::size_t k) { parts[k].found = recognize_tasks(parts[k].trace, rules); };
    if (alone) {
        find_tasks(0);
    } else {
        threads.run(parts.size(), find_tasks, kShareOfFinding);
    }
    std::ranges::stable_sort(parts, {}, &RankPart::rank);
    require_different_ranks(parts);
    find_missing_times(parts, merged.warnings);
    const Nanoseconds early = align_parts(parts, merged);

    OpenedTrace joined;
    std::vector<RankTasks> ranks;
    const std::vector<RecordingRank> given = given_ranks(parts);
    std::vector<std::size_t> matches(rules.rules().size(), 0);
    for (const RankPart& part : parts) {
        std::ranges::transform(matches, part.found.matches, matches.begin(), std::plus<>());
        std::ranges::copy(part.found.faults, std::back_inserter(merged.warnings));
        std::ranges::copy(part.found.warnings, std::back_inserter(merged.warnings));
        for (const RankTasks& rank : part.found.ranks) {
            ranks.push_back(on_clock(rank, part.clock));
        }
    }
    const ChunkPlaces places = chunk_places(ranks);
    std::ranges::for_each(ranks, [&](RankTasks& rank) { place_chunks(rank, places); });
    for (RankPart& part : parts) {
        std::ranges::for_each(part.found.ranks, [&](RankTasks& rank) { place_chunks(rank, places); });
    }
    std::ranges::copy(unused_rules(rules, matches), std::back_inserter(merged.warnings));
    std::ranges::copy(set_timeline(ranks, given, joined), std::back_inserter(merged.warnings));
    if (early > Nanoseconds{0}) {
        joined.run.emplace(kEarlyMessagesKey, fmt::format("{{\"most_ns\": {}}}", early.count()));
    }
    if (!joined.run.contains(std::string(kMissingRanksKey))) {
        std::ranges::move(missing_replicas(parts, alone), std::back_inserter(merged.warnings));
    }
    merged.tasks = static_cast<std::int64_t>(joined.measured.slices.size());

    TraceWriter writer(output, if_exists, WriteLog::in_memory);
    writer.set_run("source", nlohmann::json(to_string(parts.front().trace.origin)).dump());
    for (std::size_t k = 0; k < parts.size() && parts[k].trace.rank; ++k) {
        merged.processes.push_back(process_of(parts[k], joined));
        merged.processes.back().clock = k == 0 ? std::vector<ClockReading>() : parts[k].clock.readings();
    }
    for (const auto& [key, value] : joined.run) {
        writer.set_run(key, value);
    }
    if (!alone) {
        writer.set_run("processes", to_json(merged.processes));
    } else if (!merged.processes.empty() && merged.tasks > 0) {
        writer.set_run("process", to_json(static_cast<const ProcessFacts&>(merged.processes.front())));
    }
    if (const auto epoch = parts.front().trace.utc_epoch_ns) {
        writer.set_start(*epoch);
    }
    writer.set_lanes(joined.measured.lanes);
    std::map<TaskKey, std::int64_t> rows;
    for (const Slice& slice : joined.measured.slices) {
        rows.emplace(slice.key, writer.add_task(slice, Source::measured));
    }
    std::ranges::for_each(joined.steps, [&](const StepRecord& step) { writer.add_step(step); });
    RangeWriter ranges(writer);
    for (std::size_t k = 0; k < parts.size(); ++k) {
        const RankPart& part = parts[k];
        ranges.write(part, rows, alone);
        writer.commit();
        if (reading.progress) {
            constexpr double kBefore = kShareOfReading + kShareOfFinding;
            reading.progress(kBefore + (1 - kBefore) * static_cast<double>(k + 1) / static_cast<double>(parts.size()));
        }
        for (const DiagnosticRecord& each : part.trace.diagnostics) {
            writer.add_diagnostic({each.severity, each.source, named_by_rank(each.text, part, alone)});
        }
    }
    write_tasks_on_device(joined.on_device, rows, writer);
    write_lane_work(joined.lane_work, writer);
    for (const std::string& warning : merged.warnings) {
        writer.add_diagnostic({"warning", "merge", warning});
    }
    writer.close();
    for (std::string& warning :
         std::array{unknown_times_warning(joined.run), alone ? std::string() : missing_ranks_warning(joined.run)}) {
        if (!warning.empty()) {
            merged.warnings.push_back(std::move(warning));  // readers of the trace find it by the entry
        }
    }
    for (const RankPart& part : parts) {
        for (const DiagnosticRecord& each : part.trace.diagnostics) {
            merged.warnings.push_back(named_by_rank(each.text, part, alone));
        }
    }
    return merged;
}

bool may_be_rank_file(const fs::path& file) {
    std::error_code unknown;
    return looks_like_json(file) || fs::file_size(file, unknown) == 0 || is_plain_json_value(file);
}

bool are_rank_files(const std::vector<fs::path>& files) {
    if (files.size() < 2 || !std::ranges::all_of(files, may_be_rank_file)) {
        return false;
    }
    std::set<int> ranks;
    std::set<int> sizes;
    std::vector<fs::path> unnamed;
    try {
        for (const fs::path& file : files) {
            const RankOfFile found = looks_like_json(file) ? rank_of_file(file) : RankOfFile{false, {}, false};
            if (!found.is_trace || !found.holds_anything) {
                continue;  // beside the ranks
            }
            if (!found.rank) {
                unnamed.push_back(file);
                continue;
            }
            if (!ranks.insert(found.rank->rank).second) {
                return false;
            }
            sizes.insert(found.rank->size);
        }
    } catch (const Error&) {
        return false;  // whoever opens it says why it cannot be read
    }
    if (ranks.empty()) {
        return unnamed.size() > 1 && ranks_in_names(unnamed, true).has_value();
    }
    return unnamed.empty() && ranks.size() > 1 && sizes.size() == 1;
}
}  // namespace pipescope
