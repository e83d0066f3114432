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

/// The process that recorded the trace, from its run entries. Empty if there is none, or if it is not readable.
std::optional<ProcessFacts> recording_process(const std::map<std::string, std::string>& run);
/// The processes of a merged trace, by rank; empty for any other trace.
std::vector<MergedProcess> merged_processes(const std::map<std::string, std::string>& run);
/// Largest error of two times of different processes; empty unless the trace is merged from several, and if
/// the error of one is unknown.
std::optional<Nanoseconds> clock_bound(const std::vector<MergedProcess>& processes);
}  // namespace pipescope
