#pragma once

#include "trace/merge/merge_rank_files.h"
#include "trace/merge/merge_traces.h"

#include <filesystem>
#include <string>
#include <vector>

namespace pipescope {
// Several files of one run: from PipeScope's processes, or from another program's ranks.

/// True if all files are traces from one run's processes. False for a single file. Reads only the heads of the files.
bool are_of_one_run(const std::vector<std::filesystem::path>& files);
/// Groups files by run, in the order of each run's first file. A file that shares its run with no other is alone. JSON
/// files of another program's ranks form one run if all of them qualify; otherwise the files of a folder do, if all
/// of them qualify.
std::vector<std::vector<std::filesystem::path>> grouped_by_run(const std::vector<std::filesystem::path>& files);
/// The files without the viewer's notes, which end in .notes.json; all files if there are only notes.
std::vector<std::filesystem::path> without_notes(std::vector<std::filesystem::path> files);
/// without_notes() of the arguments, each folder replaced by its traces, by name: files that end in .sqlite, .json or
/// .json.gz. Throws TraceError for a folder without traces.
std::vector<std::filesystem::path> with_files_of_folders(const std::vector<std::filesystem::path>& arguments);

/// What a folder of runs holds.
struct UnreadableFolder {
    std::filesystem::path folder;
    std::string why;  ///< the message of the error
};
struct FilesOfRuns {
    std::vector<std::vector<std::filesystem::path>> runs;  ///< grouped_by_run(), folder by folder; damaged files too
    std::vector<std::filesystem::path> others;  ///< files whose names are not those of traces; without parts of traces
    std::vector<UnreadableFolder> unreadable;   ///< subfolders that cannot be listed
};
/// The files in the folder and in its subfolders (not in theirs), by name. Leaves out hidden files, the viewer's notes
/// and the logs of SQLite files. Throws TraceError if the folder cannot be listed.
FilesOfRuns runs_in(const std::filesystem::path& folder);

/// Merges PipeScope's traces, or the files of another program's ranks. A single file of another program becomes a trace
/// too. `rules`: a file of task rules for traces of other programs, or empty. `reading`: as for merge_rank_files();
/// only traces of other programs report progress. Errors: as merge_traces() and merge_rank_files().
MergedTrace merge_any(const std::vector<std::filesystem::path>& inputs, const std::filesystem::path& output,
                      IfExists if_exists, const std::string& configuration, const std::string& rules,
                      const RankReading& reading = {});
/// A name for the joined file, which titles show: "out.rank0 + out.rank1.sqlite", "run7: rank0 + 3 more.json".
std::string joined_name(const std::vector<std::filesystem::path>& files);
/// A path beside the first of several files that no other set of files shares. Their notes are kept there.
std::filesystem::path joined_path(const std::vector<std::filesystem::path>& files);
}  // namespace pipescope
