#pragma once

#include "schedule/process_facts.h"
#include "trace/store/trace_writer.h"

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
struct MergedTrace {
    std::vector<MergedProcess> processes;  ///< by rank
    std::int64_t tasks = 0;
    std::size_t copies = 0;             ///< between processes, with both ends
    Nanoseconds largest_shift{0};       ///< shift of a clock's offset to put copies in order
    std::vector<std::string> warnings;  ///< also in the merged trace
};

/// Writes one trace from the traces that the processes of one run recorded, in any order.
///
/// It holds everything that they hold, in the time of rank 0; docs/cli/merge.md describes each table. A copy between
/// processes is one task, from the sender's start to the receiver's end. Process ids, NVTX domains, and numbers of
/// devices, contexts and streams that several processes use are renumbered for the later ranks. `configuration`, if not
/// empty, replaces rank 0's (PIPESCOPE_RUN).
///
/// Cost: a microsecond or two for each row. Memory: some 100 bytes for each copy between processes. Errors:
/// TraceFormatError for traces that do not make up one run, TraceError if reading or writing fails.
MergedTrace merge_traces(const std::vector<std::filesystem::path>& inputs, const std::filesystem::path& output,
                         IfExists if_exists, const std::string& configuration = {});
/// The process that recorded this trace, one of several; empty for any other file.
std::optional<ProcessFacts> rank_of_trace(const std::filesystem::path& path);
}  // namespace pipescope
