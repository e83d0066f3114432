#include "cli/joined_trace.h"

#include "base/error.h"
#include "base/quantities.h"
#include "cli/progress_bar.h"

#include <fmt/format.h>

namespace pipescope {
namespace {
namespace fs = std::filesystem;

std::vector<fs::path> paths_of(const std::vector<std::string>& files) {
    return {files.begin(), files.end()};
}

std::vector<std::string> texts_of_paths(const std::vector<fs::path>& paths) {
    std::vector<std::string> texts;
    for (const fs::path& path : paths) {
        texts.push_back(path.string());
    }
    return texts;
}
}  // namespace

JoinedTrace::JoinedTrace(const std::vector<std::string>& files, const std::string& rules, const std::vector<int>& ranks)
    : name_(files.size() == 1
                ? files.front()
                : fmt::format("{} with {}", files.front(), counted(files.size() - 1, "more file", "more files"))),
      path_(files.front()) {
    if (files.size() == 1 && rules.empty() && ranks.empty()) {
        return;
    }
    path_ = temporary_.emplace(joined_name(paths_of(files))).path();
    ProgressBar bar("reading files");
    merge_any({files.begin(), files.end()}, path_, IfExists::refuse, {}, rules,
              {ranks, [&](double done) { bar.show(done); }});  // its warnings are in the trace
}

std::vector<std::string> without_notes(const std::vector<std::string>& files) {
    return texts_of_paths(without_notes(paths_of(files)));
}

std::vector<std::string> with_files_of_folders(const std::vector<std::string>& arguments) {
    return texts_of_paths(with_files_of_folders(paths_of(arguments)));
}

void add_ranks_option(CLI::App& command, std::vector<int>& ranks) {
    command
        .add_option("--ranks", ranks,
                    "Ranks of another program's files, in the order of TRACE (those of a folder by name), such as "
                    "0,1,2,3; default: as the files say")
        ->delimiter(',')
        ->check(CLI::Range(0, 65535))
        ->allow_extra_args(false)
        ->type_name("LIST");
}

void add_task_rules_option(CLI::App& command, std::string& rules) {
    command
        .add_option("--task-rules", rules,
                    "Rules that find a pipeline's tasks among the ranges of another program (docs/task-rules.md)")
        ->type_name("FILE");
}

bool are_of_one_run(const std::vector<std::string>& files) {
    return are_of_one_run(paths_of(files));
}
}  // namespace pipescope
