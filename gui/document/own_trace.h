#pragma once

#include "gui/document/document_loader.h"
#include "gui/document/task_loading.h"
#include "trace/store/trace_reader.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

namespace pipescope {
/// Reads a PipeScope trace in parts: the whole with load(), or repeatedly with loadMore() while it is being written.
/// Threading: one thread at a time. Errors: those of loadDocument().
class OwnTrace {
public:
    OwnTrace(const QString& path, TraceReader reader);
    /// As loadDocument(). Stops early once `stop` is requested.
    void load(const PublishDocument& publish, const std::stop_token& stop, std::int64_t mostForwards);
    /// Reads new data and returns a document of all data so far.
    std::shared_ptr<const TraceDocument> loadMore(const std::stop_token& stop);

private:
    void readHead();
    std::shared_ptr<const TraceDocument> firstPart() const;
    /// Call once all measured tasks, if any, are read.
    void takeTasks();
    /// Simulates the merged run of another program with the profile measured from its tasks.
    void simulateAnotherProgram();
    void readRanges(const std::stop_token& stop);
    void readSimulated();
    /// Throws Error for a trace without anything to show.
    void requireContent(const std::stop_token& stop);
    void readMemory();
    void readNewMemory();

    TraceReader reader_;
    std::vector<LaneInfo> lanes_;
    TaskLoading tasks_;
    TraceDocument document_;
    std::optional<Simulation> simulation_;  // what document_ lacks of its simulation
    // For a growing trace.
    std::vector<MemoryTrack> memory_;
    std::int64_t lastSample_ = 0;
    std::chrono::nanoseconds rangesTook_{0};
    std::vector<TraceWarning> rangeWarnings_;  // of the ranges read last
};
}  // namespace pipescope
