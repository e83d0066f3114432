#pragma once

#include "cli/temporary_trace.h"
#include "trace/merge/run_files.h"

#include <CLI/App.hpp>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// The trace that a command reads: the only file given, or a temporary trace that joins the files of several processes
/// of one run. Its diagnostics hold the warnings.
class JoinedTrace {
public:
    /// `rules`: a file of task rules for traces of other programs, or empty. `ranks`: as for merge_rank_files(). Throws
    /// as merge_traces() and merge_rank_files().
    explicit JoinedTrace(const std::vector<std::string>& files, const std::string& rules = {},
                         const std::vector<int>& ranks = {});

    const std::filesystem::path& path() const { return path_; }
    /// The files that were given, for messages, as a singular: "t/rank0.json with 3 more files".
    const std::string& name() const { return name_; }

private:
    std::string name_;
    std::optional<TemporaryTrace> temporary_;
    std::filesystem::path path_;
};

// are_of_one_run() of trace/merge/run_files.h, for a command's arguments.
bool are_of_one_run(const std::vector<std::string>& files);
std::vector<std::string> without_notes(const std::vector<std::string>& files);
std::vector<std::string> with_files_of_folders(const std::vector<std::string>& arguments);
/// Adds --ranks, the ranks of another program's files.
void add_ranks_option(CLI::App& command, std::vector<int>& ranks);
/// Adds --task-rules, a file of task rules.
void add_task_rules_option(CLI::App& command, std::string& rules);
}  // namespace pipescope
