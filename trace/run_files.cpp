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

MergedTrace merge_any(const std::vector<fs::path>& inputs, const fs::path& output, IfExists if_exists,
                      const std::string& configuration, const std::string& rules) {
    if (inputs.empty() || TraceReader::open(inputs.front())) {
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
        std::vector<fs::path> found;
        std::string folder;  // torchtitan has one for each recorded iteration
        for (const fs::directory_entry& entry : fs::directory_iterator(argument)) {
            const std::string name = entry.path().filename().string();
            const bool is_trace = name.ends_with(".json") || name.ends_with(".json.gz") || name.ends_with(".sqlite");
            const bool is_notes = name.ends_with(".notes.json");  // of the viewer, beside a trace
            if (entry.is_regular_file(unknown) && is_trace && !is_notes) {
                found.push_back(entry.path());
            } else if (entry.is_directory(unknown)) {
                folder = std::max(folder, entry.path().string());
            }
        }
        if (found.empty()) {
            throw UsageError(fmt::format(
                "{} is a folder without a trace; traces end in .json, .json.gz or .sqlite; name {}", argument.string(),
                folder.empty() ? "another folder or file" : "one run's folder in it, such as " + folder));
        }
        std::ranges::sort(found);
        files.insert(files.end(), found.begin(), found.end());
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
