#include "cli/joined_trace.h"

#include "schedule/error.h"
#include "trace/merge_rank_files.h"
#include "trace/trace_reader.h"

#include <fmt/format.h>

#include <algorithm>

namespace pipescope {
namespace {
namespace fs = std::filesystem;

/// The name of the joined file, which titles show: "out.rank0 + out.rank1.sqlite".
std::string joined_name(const std::vector<std::string>& files) {
    constexpr std::size_t kMostNamed = 3;
    std::string name = fs::path(files.front()).stem().string();
    for (std::size_t k = 1; k < files.size() && files.size() <= kMostNamed; ++k) {
        name += " + " + fs::path(files[k]).stem().string();
    }
    if (files.size() > kMostNamed) {
        name += fmt::format(" + {} more", files.size() - 1);
    }
    return name + ".sqlite";
}
}  // namespace

JoinedTrace::JoinedTrace(const std::vector<std::string>& files, const std::string& rules)
    : name_(files.size() == 1 ? files.front() : fmt::format("{} and {} more", files.front(), files.size() - 1)),
      path_(files.front()) {
    if (files.size() == 1 && rules.empty()) {
        return;
    }
    path_ = temporary_.emplace(joined_name(files)).path();
    merge_any({files.begin(), files.end()}, path_, IfExists::refuse, {}, rules);  // its warnings are in the trace
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

std::vector<std::string> with_files_of_folders(const std::vector<std::string>& arguments) {
    std::vector<std::string> files;
    for (const std::string& argument : arguments) {
        std::error_code unknown;
        if (!fs::is_directory(argument, unknown)) {
            files.push_back(argument);
            continue;
        }
        std::vector<std::string> found;
        for (const fs::directory_entry& entry : fs::directory_iterator(argument)) {
            const std::string name = entry.path().filename().string();
            const bool is_trace = name.ends_with(".json") || name.ends_with(".json.gz") || name.ends_with(".sqlite");
            if (entry.is_regular_file() && is_trace) {
                found.push_back(entry.path().string());
            }
        }
        if (found.empty()) {
            throw UsageError(fmt::format(
                "{} is a folder without a trace; traces end in .json, .json.gz or .sqlite; name another folder or file",
                argument));
        }
        std::ranges::sort(found);
        files.insert(files.end(), found.begin(), found.end());
    }
    return files;
}

void add_task_rules_option(CLI::App& command, std::string& rules) {
    command
        .add_option("--task-rules", rules,
                    "Rules that find a pipeline's tasks among the ranges of another program (docs/task-rules.md)")
        ->type_name("FILE");
}

bool are_of_one_run(const std::vector<std::string>& files) {
    if (are_rank_files({files.begin(), files.end()})) {
        return true;
    }
    std::optional<std::string> run;
    for (const std::string& file : files) {
        const std::optional<ProcessFacts> process = rank_of_trace(file);
        if (!process || run.value_or(process->run) != process->run) {
            return false;
        }
        run = process->run;
    }
    return files.size() > 1;
}
}  // namespace pipescope
