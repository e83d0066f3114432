#pragma once

#include "schedule/process_facts.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// The run entry "process", which each process of a run writes into its own trace.
std::string to_json(const ProcessFacts& facts);
/// The run entry "processes" of a merged trace.
std::string to_json(const std::vector<MergedProcess>& processes);

/// The process that recorded the trace, from its run entries. Empty if the entry is missing or not readable.
std::optional<ProcessFacts> recording_process(const std::map<std::string, std::string>& run);
/// The processes of a merged trace, by rank; empty for any other trace.
std::vector<MergedProcess> merged_processes(const std::map<std::string, std::string>& run);
/// The ranks that a trace lacks although its tasks get input from them.
struct MissingRanks {
    std::vector<int> ranks;               ///< empty if the files do not name their ranks
    int size = 0;                         ///< of the whole run; 0 if the files do not name their ranks
    std::vector<int> without_steps = {};  ///< those of `ranks` whose files are given, but name no steps

    /// "rank 1 of 2"
    std::string text() const;
    friend bool operator==(const MissingRanks&, const MissingRanks&) = default;
};
/// The run entry kMissingRanksKey.
std::string to_json(const MissingRanks& missing);
/// Reads the entry kMissingRanksKey. Empty if it is missing or not readable.
std::optional<MissingRanks> missing_ranks_entry(const std::map<std::string, std::string>& run);
/// All ranks except the one that recorded the trace.
MissingRanks other_ranks(const ProcessFacts& process);
/// Largest error between times of different processes. Empty unless the trace is merged from several processes, and if
/// the error of one of them is unknown.
std::optional<Nanoseconds> clock_bound(const std::vector<MergedProcess>& processes);
}  // namespace pipescope
