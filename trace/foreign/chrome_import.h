#pragma once

#include "trace/foreign/gzip_stream.h"
#include "trace/store/opened_trace.h"

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <filesystem>
#include <string_view>

namespace pipescope {
/// Reads a Chrome trace, optionally gzipped. PipeScope's own export returns as the original trace; JSON of PyTorch's
/// profiler and others as tracks and counters. Also recognises a profile. Calls `progress` while it reads the file,
/// unless that is empty. Errors: those of open_trace().
OpenedTrace import_chrome(const std::filesystem::path& path, const ReadProgress& progress = {});

/// The event at this position in a Chrome trace's list, with all its arguments: a JSON object. Null if there is none.
/// Cost: that of reading the file up to there. Errors: those of open_trace().
nlohmann::json event_of_chrome(const std::filesystem::path& path, std::size_t index);

/// What a JSON file says of the rank that recorded it.
struct RankOfFile {
    bool is_trace = true;               ///< or a profile; false for other JSON, such as a configuration beside traces
    std::optional<RecordingRank> rank;  ///< as PyTorch's profiler names it
    bool holds_anything = true;         ///< a rank is named, or there is a range, or it is a profile
};
/// Of a diagnostic of an import: begins the sentence that says why the file's rank is not known.
inline constexpr std::string_view kRankUnknown = "\"distributedInfo\"";
/// Reads to the first event, or to the end of an object in which nothing before the events tells who wrote the file; of
/// a file that names no rank, to the first range.
/// Errors: those of open_trace().
RankOfFile rank_of_file(const std::filesystem::path& path);

/// The format name of PipeScope's export, under "otherData".
inline constexpr const char* kChromeExportFormat = "pipescope.chrome";
/// Raised if an older import would misunderstand a newer export.
inline constexpr int kChromeExportVersion = 2;
/// Exports of a run in one process have this version. Since 2, measured tasks may be in several processes.
inline constexpr int kVersionOfOneProcess = 1;
/// Chrome's process number of rank 0's tasks in an export of a merged trace; the other ranks follow.
inline constexpr int kFirstRankProcess = 1'000'000;
}  // namespace pipescope
