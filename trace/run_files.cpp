#include "trace/run_files.h"

#include "schedule/error.h"
#include "trace/merge_rank_files.h"
#include "trace/trace_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace pipescope {
namespace fs = std::filesystem;

std::string joined_name(const std::vector<fs::path>& files) {
    constexpr std::size_t kMostNamed = 3;
    std::string name = files.front().stem().string();
    for (std::size_t k = 1; k < files.size() && files.size() <= kMostNamed; ++k) {
        name += " + " + files[k].stem().string();
    }
    if (files.size() > kMostNamed) {
        name += fmt::format(" + {} more", files.size() - 1);
    }
    if (files.size() > kMostNamed || files.front().extension() != ".sqlite") {  // programs name ranks alike in all runs
        const std::string folder = files.front().parent_path().filename().string();
        name = (folder.empty() ? "" : folder + ": ") + name;
    }
    return name + files.front().extension().string();
}

namespace {
bool is_own_trace(const fs::path& path) {
    try {
        return TraceReader::open(path).has_value();
    } catch (const Error&) {
        return false;  // whoever opens it says why it cannot be read
    }
}

/// The regular files in a folder that may be traces, and its last folder by name.
struct FolderContents {
    std::vector<fs::path> traces;
    std::string last_folder;
};

FolderContents contents_of(const fs::path& folder) {
    FolderContents contents;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
         entry.increment(error)) {
        std::error_code unknown;
        const std::string name = entry->path().filename().string();
        const bool is_trace = name.ends_with(".json") || name.ends_with(".json.gz") || name.ends_with(".sqlite");
        const bool is_notes = name.ends_with(".notes.json");  // of the viewer, beside a trace
        if (entry->is_regular_file(unknown) && is_trace && !is_notes) {
            contents.traces.push_back(entry->path());
        } else if (entry->is_directory(unknown)) {
            contents.last_folder = std::max(contents.last_folder, entry->path().string());
        }
    }
    if (error) {
        throw TraceError(
            fmt::format("cannot list the files of {}: {}; check its permissions", folder.string(), error.message()));
    }
    std::ranges::sort(contents.traces);
    return contents;
}
}  // namespace

MergedTrace merge_any(const std::vector<fs::path>& inputs, const fs::path& output, IfExists if_exists,
                      const std::string& configuration, const std::string& rules) {
    const auto own = std::ranges::find_if(inputs, is_own_trace);
    const auto other = std::ranges::find_if_not(inputs, is_own_trace);
    if (own != inputs.end() && other != inputs.end()) {
        throw UsageError(fmt::format(
            "{} is a trace of PipeScope, and {} is none; a timeline shows one run, and all its files are of "
            "one kind; leave one out",
            own->string(), other->string()));
    }
    if (other == inputs.end()) {
        if (!rules.empty()) {
            throw UsageError(
                fmt::format("--task-rules is {}, but {} is a trace of PipeScope, which names its tasks; leave "
                            "--task-rules out",
                            rules, inputs.empty() ? "no file" : inputs.front().string()));
        }
        return merge_traces(inputs, output, if_exists, configuration);
    }
    return merge_rank_files(inputs, output, if_exists, rules.empty() ? TaskRules() : TaskRules::load(rules));
}

std::vector<fs::path> with_files_of_folders(const std::vector<fs::path>& arguments) {
    std::vector<fs::path> files;
    for (const fs::path& argument : arguments) {
        std::error_code unknown;
        if (!fs::is_directory(argument, unknown)) {
            files.push_back(argument);
            continue;
        }
        const FolderContents found = contents_of(argument);
        if (found.traces.empty()) {
            throw UsageError(fmt::format(
                "{} is a folder without a trace; traces end in .json, .json.gz or .sqlite; name {}", argument.string(),
                found.last_folder.empty() ? "another folder or file"
                                          : "one run's folder in it, such as " + found.last_folder));
        }
        files.insert(files.end(), found.traces.begin(), found.traces.end());
    }
    return files;
}

bool are_of_one_run(const std::vector<fs::path>& files) {
    if (are_rank_files(files)) {
        return true;
    }
    std::optional<std::string> run;
    for (const fs::path& file : files) {
        const std::optional<ProcessFacts> process = rank_of_trace(file);
        if (!process || run.value_or(process->run) != process->run) {
            return false;
        }
        run = process->run;
    }
    return files.size() > 1;
}

std::vector<std::vector<fs::path>> grouped_by_run(const std::vector<fs::path>& files) {
    std::vector<std::vector<fs::path>> groups;
    std::map<std::string, std::size_t> places;  // of each run of PipeScope
    std::set<std::pair<std::string, int>> ranks;
    std::vector<fs::path> others;
    for (const fs::path& file : files) {
        const std::optional<ProcessFacts> process = rank_of_trace(file);
        if (process && ranks.emplace(process->run, process->rank).second) {  // a copy is none of the run's files
            const auto [place, fresh] = places.try_emplace(process->run, groups.size());
            groups.resize(groups.size() + (fresh ? 1 : 0));
            groups[place->second].push_back(file);
        } else {
            others.push_back(file);
        }
    }
    if (are_rank_files(others)) {
        groups.push_back(std::move(others));
    } else {
        std::ranges::transform(others, std::back_inserter(groups),
                               [](const fs::path& file) { return std::vector{file}; });
    }
    std::ranges::stable_sort(
        groups, {}, [&](const std::vector<fs::path>& group) { return std::ranges::find(files, group.front()); });
    return groups;
}
}  // namespace pipescope
