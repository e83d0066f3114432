#pragma once

#include "trace/foreign/gzip_stream.h"
#include "trace/store/opened_trace.h"

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <filesystem>
#include <string_view>

namespace pipescope {
/// Reads a Chrome trace, gzipped or not. PipeScope's own export returns as the original trace. JSON of PyTorch's
/// profiler and of other programs returns as tracks and counters. Also recognises a profile. Calls `progress`, unless
/// it is empty, while it reads. Errors: as open_trace().
OpenedTrace import_chrome(const std::filesystem::path& path, const ReadProgress& progress = {});

/// The event at this position in a Chrome trace's list, with all its arguments: a JSON object. Null if there is none.
/// Reads the file up to there. Errors: as open_trace().
nlohmann::json event_of_chrome(const std::filesystem::path& path, std::size_t index);

/// What a JSON file says about the rank that recorded it.
struct RankOfFile {
    bool is_trace = true;               ///< or a profile; false for other JSON, such as a configuration beside traces
    std::optional<RecordingRank> rank;  ///< as PyTorch's profiler names it
    bool holds_anything = true;         ///< it names a rank, has a range, or is a profile
};
/// Begins the sentence, in an import's diagnostic, that explains why the file's rank is unknown.
inline constexpr std::string_view kRankUnknown = "\"distributedInfo\"";
/// Reads only the head of the file: up to the first event, or to the first range if the file names no rank. Reads an
/// object to its end if no field before the events shows who wrote the file. Errors: as open_trace().
RankOfFile rank_of_file(const std::filesystem::path& path);

/// The format name of PipeScope's export, under "otherData".
inline constexpr const char* kChromeExportFormat = "pipescope.chrome";
/// Raise it if an older import would misunderstand a newer export.
inline constexpr int kChromeExportVersion = 2;
/// The version of exports of a run in one process. Since version 2, measured tasks may be in several processes.
inline constexpr int kVersionOfOneProcess = 1;
/// Chrome's process number of rank 0's tasks in an export of a merged trace; the other ranks follow.
inline constexpr int kFirstRankProcess = 1'000'000;
}  // namespace pipescope
