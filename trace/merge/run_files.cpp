#include "trace/merge/run_files.h"

#include "base/error.h"
#include "base/number_text.h"
#include "trace/foreign/chrome_import.h"
#include "trace/store/trace_file.h"
#include "trace/store/trace_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace pipescope {
namespace fs = std::filesystem;

namespace {
constexpr std::size_t kMostNamed = 3;  // of the files named in the joined name

/// True if the joined name identifies these files: it names all of them, or they are numbered consecutively.
bool is_told_by_first(const std::vector<fs::path>& files) {
    if (files.size() <= kMostNamed) {
        return true;
    }
    const std::string first = files.front().filename().string();
    const auto is_digit = [](char each) { return each >= '0' && each <= '9'; };
    const std::size_t stem = files.front().stem().string().size();
    std::size_t end = stem;
    while (end > 0 && !is_digit(first[end - 1])) {
        --end;
    }
    std::size_t start = end;
    while (start > 0 && is_digit(first[start - 1])) {
        --start;
    }
    const std::optional<std::int64_t> number =
        number_in<std::int64_t>(std::string_view(first).substr(start, end - start));
    std::set<std::string> wanted;
    for (std::size_t k = 0; number && k < files.size(); ++k) {
        const std::string text = std::to_string(*number + static_cast<std::int64_t>(k));
        const std::string zeros(end - start > text.size() ? end - start - text.size() : 0, '0');
        wanted.insert(first.substr(0, start) + zeros + text + first.substr(end));
    }
    return std::ranges::all_of(files,
                               [&](const fs::path& file) { return wanted.contains(file.filename().string()); }) &&
           wanted.size() == files.size();
}

/// FNV-1a
std::uint64_t checksum_of(const std::string& text) {
    std::uint64_t hash = 14695981039346656037U;
    for (const char each : text) {
        hash = (hash ^ static_cast<unsigned char>(each)) * 1099511628211U;
    }
    return hash;
}
}  // namespace

std::string joined_name(const std::vector<fs::path>& files) {
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

fs::path joined_path(const std::vector<fs::path>& files) {
    fs::path name(joined_name(files));
    if (!is_told_by_first(files)) {
        std::string names;
        for (const fs::path& file : files) {
            names += file.filename().string() + '\n';
        }
        name = fmt::format("{} ({:08x}){}", name.stem().string(), checksum_of(names) & 0xffffffffU,
                           name.extension().string());
    }
    return fs::absolute(files.front()).parent_path() / name;
}

namespace {
bool is_own_trace(const fs::path& path) {
    try {
        return TraceReader::open(path).has_value();
    } catch (const Error&) {
        return false;  // whoever opens it says why it cannot be read
    }
}

/// True for the viewer's notes, which it keeps beside a trace.
bool is_file_of_notes(const fs::path& path) {
    if (!path.filename().string().ends_with(".notes.json")) {
        return false;
    }
    try {
        return !looks_like_json(path) || !rank_of_file(path).is_trace;
    } catch (const Error&) {
        return true;  // damaged
    }
}

/// The regular files in a folder that may be traces, the other ones, and its folders, each by name.
struct FolderContents {
    std::vector<fs::path> traces;
    std::vector<fs::path> others;
    std::vector<fs::path> folders;
};

bool ends_in_one_of(const std::string& name, std::initializer_list<const char*> ends) {
    return std::ranges::any_of(ends, [&](const char* end) { return name.ends_with(end); });
}

FolderContents contents_of(const fs::path& folder) {
    FolderContents contents;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
         entry.increment(error)) {
        std::error_code unknown;
        const std::string name = entry->path().filename().string();
        const bool is_trace = ends_in_one_of(name, {".json", ".json.gz", ".sqlite"});
        const bool is_file = entry->is_regular_file(unknown);
        if (is_file && is_trace && !is_file_of_notes(entry->path())) {
            contents.traces.push_back(entry->path());
        } else if (entry->is_directory(unknown)) {
            contents.folders.push_back(entry->path());
        } else if (is_file && !is_trace && !name.starts_with('.') &&
                   !ends_in_one_of(name, {"-wal", "-shm", "-journal"})) {
            contents.others.push_back(entry->path());
        }
    }
    if (error) {
        throw TraceError(
            fmt::format("cannot list the files of {}: {}; check its permissions", folder.string(), error.message()));
    }
    std::ranges::sort(contents.traces);
    std::ranges::sort(contents.others);
    std::ranges::sort(contents.folders);
    return contents;
}
}  // namespace

MergedTrace merge_any(const std::vector<fs::path>& inputs, const fs::path& output, IfExists if_exists,
                      const std::string& configuration, const std::string& rules, const RankReading& reading) {
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
        if (!reading.ranks.empty()) {
            throw UsageError("--ranks is given, but traces of PipeScope name their ranks; leave it out");
        }
        return merge_traces(inputs, output, if_exists, configuration);
    }
    return merge_rank_files(inputs, output, if_exists, rules.empty() ? TaskRules() : TaskRules::load(rules), reading);
}

std::vector<fs::path> without_notes(std::vector<fs::path> files) {
    if (!std::ranges::all_of(files, is_file_of_notes)) {
        std::erase_if(files, is_file_of_notes);
    }
    return files;
}

std::vector<fs::path> with_files_of_folders(const std::vector<fs::path>& arguments) {
    std::vector<fs::path> files;
    for (const fs::path& argument : without_notes(arguments)) {
        std::error_code unknown;
        if (!fs::is_directory(argument, unknown)) {
            files.push_back(argument);
            continue;
        }
        const FolderContents found = contents_of(argument);
        if (found.traces.empty()) {
            throw TraceError(fmt::format(
                "{} is a folder without a trace; traces end in .json, .json.gz or .sqlite; name {}", argument.string(),
                found.folders.empty() ? "another folder or file"
                                      : "one run's folder in it, such as " + found.folders.back().string()));
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
    const auto add_alone = [&groups](const std::vector<fs::path>& alone) {
        std::ranges::transform(alone, std::back_inserter(groups),
                               [](const fs::path& file) { return std::vector{file}; });
    };
    const auto add_ranks = [&](std::vector<fs::path> ranks_or_not) {
        if (are_rank_files(ranks_or_not)) {
            groups.push_back(std::move(ranks_or_not));
            return true;
        }
        return false;
    };
    // Clang 14 cannot compile the subrange that std::ranges::stable_partition returns.
    const auto rest = std::stable_partition(others.begin(), others.end(), may_be_rank_file);
    add_alone({rest, others.end()});
    others.erase(rest, others.end());
    if (!add_ranks(others)) {
        std::map<fs::path, std::vector<fs::path>> folders;
        for (const fs::path& file : others) {
            folders[file.parent_path()].push_back(file);
        }
        for (const auto& [folder, of_folder] : folders) {
            if (!add_ranks(of_folder)) {
                add_alone(of_folder);
            }
        }
    }
    std::ranges::stable_sort(
        groups, {}, [&](const std::vector<fs::path>& group) { return std::ranges::find(files, group.front()); });
    return groups;
}

FilesOfRuns runs_in(const fs::path& folder) {
    FilesOfRuns found;
    const auto add = [&found](const FolderContents& contents) {
        std::ranges::move(grouped_by_run(contents.traces), std::back_inserter(found.runs));
        found.others.insert(found.others.end(), contents.others.begin(), contents.others.end());
    };
    const FolderContents own = contents_of(folder);
    add(own);
    for (const fs::path& each : own.folders) {
        try {
            add(contents_of(each));
        } catch (const TraceError& error) {  // not readable for this user
            found.unreadable.push_back({each, error.what()});
        }
    }
    return found;
}
}  // namespace pipescope
