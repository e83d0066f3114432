#pragma once

#include "trace/merge/merge_traces.h"

#include <filesystem>
#include <string>
#include <vector>

namespace pipescope {
// Several files that are one run: those of PipeScope's processes, or of another program's ranks.

/// True if all files are traces of one run's processes. One file alone is not. Reads only the heads of the files.
bool are_of_one_run(const std::vector<std::filesystem::path>& files);
/// The files of each run, by the place of its first file. A file that is of no run with others is alone. The JSON files
/// of another program's ranks are one run if all of them are such; otherwise those of one folder are, if all there are.
std::vector<std::vector<std::filesystem::path>> grouped_by_run(const std::vector<std::filesystem::path>& files);
/// The files without those of the viewer's notes, which end in .notes.json; all of them if there are no others.
std::vector<std::filesystem::path> without_notes(std::vector<std::filesystem::path> files);
/// The arguments without_notes(), with the traces in each folder in its place, by name: files that end in .sqlite,
/// .json or .json.gz. Throws UsageError for a folder without traces.
std::vector<std::filesystem::path> with_files_of_folders(const std::vector<std::filesystem::path>& arguments);
/// Merges PipeScope's traces or the files of another program's ranks, whichever they are. A single file of another
/// program becomes a trace too. `rules` is a file of task rules for traces of other programs, or empty. Errors: those
/// of merge_traces() and merge_rank_files().
MergedTrace merge_any(const std::vector<std::filesystem::path>& inputs, const std::filesystem::path& output,
                      IfExists if_exists, const std::string& configuration, const std::string& rules);
/// A name for the joined file, which titles show: "out.rank0 + out.rank1.sqlite", "run7: rank0 + 3 more.json".
std::string joined_name(const std::vector<std::filesystem::path>& files);
/// A place beside the first of several files, which no other files share. Their notes are kept there.
std::filesystem::path joined_path(const std::vector<std::filesystem::path>& files);
}  // namespace pipescope
