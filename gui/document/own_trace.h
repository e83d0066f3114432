#pragma once

#include "gui/document/document_loader.h"
#include "gui/document/task_loading.h"
#include "trace/trace_reader.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

namespace pipescope {
/// One trace of ours, read part by part: whole by load(), or again and again, while it is being written, by loadMore().
/// Threading: one thread at a time. Errors: those of loadDocument().
class OwnTrace {
public:
    OwnTrace(const QString& path, TraceReader reader);
    /// The whole of it. Stops early once `stop` is requested.
    void load(const PublishDocument& publish, const std::stop_token& stop);
    /// What came since the last call, and all before.
    std::shared_ptr<const TraceDocument> loadMore(const std::stop_token& stop);

private:
    void readHead();
    std::shared_ptr<const TraceDocument> firstPart() const;
    /// Once the measured tasks are there, or none.
    void takeTasks();
    void readRanges(const std::stop_token& stop);
    void readSimulated();
    /// Throws Error for a trace in which there is nothing to show.
    void requireContent(const std::stop_token& stop);
    void readMemory();
    void readNewMemory();

    TraceReader reader_;
    std::vector<LaneInfo> lanes_;
    TaskLoading tasks_;
    TraceDocument document_;
    std::optional<Simulation> simulation_;
    // Of a trace that grows.
    std::vector<MemoryTrack> memory_;
    std::int64_t lastSample_ = 0;
    std::chrono::nanoseconds rangesTook_{0};
    std::vector<TraceWarning> rangeWarnings_;  // of the ranges read last
};
}  // namespace pipescope
