#include "analysis/run_list.h"

#include "base/error.h"
#include "base/scratch_folder.h"
#include "base/stop_check.h"
#include "trace/merge/run_files.h"
#include "trace/store/trace_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <system_error>
#include <utility>

namespace pipescope {
namespace {
namespace fs = std::filesystem;

/// Read in one piece, or joined in a scratch folder first.
LoadedRun load_files(const std::vector<fs::path>& files) {
    if (files.size() == 1) {
        return load_run(files.front());
    }
    const ScratchFolder scratch;
    const fs::path joined = scratch.path() / joined_name(files);
    merge_any(files, joined, IfExists::refuse, {}, {});
    return load_run(joined);
}

std::string relative_name(const fs::path& file, const fs::path& folder) {
    return file.lexically_relative(folder).string();
}

/// A run of several files goes by its subfolder, or else by the joined name.
std::string name_of(const std::vector<fs::path>& files, const fs::path& folder) {
    if (files.size() == 1) {
        return relative_name(files.front(), folder);
    }
    const fs::path parent = files.front().parent_path();
    const bool same = std::ranges::all_of(files, [&](const fs::path& each) { return each.parent_path() == parent; });
    return same && parent != folder ? relative_name(parent, folder) : joined_name(files);
}

std::optional<double> last_loss(const RecordedRun& run) {
    if (!knows_losses(run)) {
        return std::nullopt;
    }
    for (auto step = run.steps.rbegin(); step != run.steps.rend(); ++step) {
        if (std::isfinite(step->training_loss)) {
            return step->training_loss;
        }
    }
    return std::nullopt;
}

ListedRun read_listed(const std::vector<fs::path>& files, const fs::path& folder) {
    const LoadedRun loaded = load_files(files);
    ListedRun listed;
    listed.files = files;
    listed.simulated = loaded.is_simulated();
    listed.utc_ns = loaded.trace.utc_epoch_ns;
    listed.run = compared_run(loaded.tasks());
    listed.run.name = name_of(files, folder);
    listed.loss = last_loss(loaded.run);
    return listed;
}

/// When it was recorded, or written. Of a simulation, only when it was written.
std::int64_t time_of(const ListedRun& run) {
    if (run.utc_ns && !run.simulated) {
        return *run.utc_ns;
    }
    std::error_code error;
    const fs::file_time_type written = fs::last_write_time(run.files.front(), error);
    return error ? 0
                 : std::chrono::duration_cast<std::chrono::nanoseconds>(
                       std::chrono::file_clock::to_sys(written).time_since_epoch())
                       .count();
}

/// By time, and then by name. Asks the disk once for each run, since a file may grow meanwhile.
void sort_by_time(std::vector<ListedRun>& runs) {
    std::vector<std::pair<std::int64_t, ListedRun>> timed;
    for (ListedRun& run : runs) {
        const std::int64_t time = time_of(run);
        timed.emplace_back(time, std::move(run));
    }
    std::ranges::sort(timed, {}, [](const auto& each) { return std::pair(each.first, each.second.run.name); });
    std::ranges::transform(timed, runs.begin(), [](auto& each) { return std::move(each.second); });
}

void add_changes(std::vector<ListedRun>& runs) {
    for (std::size_t k = 1; k < runs.size(); ++k) {
        const ComparedRun& before = runs[k - 1].run;
        const ComparedRun& after = runs[k].run;
        std::string why = why_work_differs(before.run, after.run);
        if (why.empty() && runs[k - 1].simulated != runs[k].simulated) {
            why = "one of the two is a simulation";
        }
        if (why.empty()) {
            runs[k].step_change = step_changes(before, after).step;
            why = runs[k].step_change ? "" : "step times are not certain in one of the two";
        }
        runs[k].why_no_change = std::move(why);
    }
}
}  // namespace

RunList list_runs(const fs::path& folder, const std::function<void(double)>& progress) {
    const FilesOfRuns found = runs_in(folder);
    if (found.runs.empty() && found.others.empty()) {
        throw TraceError(fmt::format("{} holds no run; traces end in .sqlite, .json or .json.gz; name another folder",
                                     folder.string()));
    }
    RunList list;
    for (const fs::path& other : found.others) {
        list.left_out.push_back({relative_name(other, folder), "its name ends in none of .sqlite, .json and .json.gz"});
    }
    for (const UnreadableFolder& each : found.unreadable) {
        list.left_out.push_back({relative_name(each.folder, folder), each.why});
    }
    for (std::size_t k = 0; k < found.runs.size(); ++k) {
        check_stop();
        const std::vector<fs::path>& files = found.runs[k];
        const auto leave_out = [&](const std::string& why) { list.left_out.push_back({name_of(files, folder), why}); };
        try {
            ListedRun listed = read_listed(files, folder);
            if (listed.run.figures) {
                list.runs.push_back(std::move(listed));
            } else {
                leave_out(listed.run.why_none.empty() ? "holds no step to compare" : listed.run.why_none);
            }
        } catch (const Error& error) {  // damaged, or another kind of file
            leave_out(error.what());
        }
        if (progress) {
            progress(static_cast<double>(k + 1) / static_cast<double>(found.runs.size()));
        }
    }
    sort_by_time(list.runs);
    std::ranges::sort(list.left_out, {}, &LeftOutFile::name);
    add_changes(list.runs);
    for (ListedRun& each : list.runs) {
        each.run.run.profile.reset();
        each.run.run.graph.reset();
    }
    return list;
}
}  // namespace pipescope
