#pragma once

#include "gui/document/trace_document.h"
#include "trace/foreign/gzip_stream.h"

#include <QString>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <stop_token>

namespace pipescope {
/// Receives more and more complete documents of one file; called in the loading thread.
using PublishDocument = std::function<void(std::shared_ptr<const TraceDocument>)>;

/// Opens every format of trace/open_trace.h: a trace, finished or being written, an export of nsys, JSON of Kineto or
/// Chrome, a profile (simulated alone). Simulates the trace's configuration from the profile in the trace, and compares
/// the two. Missing parts become notes of the document.
///
/// Publishes a large trace in parts, each a document that can be shown: the first steps after a fifth of a second, all
/// tasks (read on every core, at 25 bytes each) a few seconds later, then memory, comparison and tracks. Small traces
/// are published once. Where the noise of the simulation takes long, it comes last. Threading: any thread. Stops early,
/// keeping what was published, once `stop` is requested: it returns, or throws ComputationStopped. Throws Error for a
/// file that cannot be read, has another format, or contains nothing to draw. Noise is left out for a pipeline of more
/// forwards than `mostForwards` (TraceDocument::noiseLeftOut). Calls `progress` while it reads JSON, unless that is
/// empty.
void loadDocument(const QString& path, const PublishDocument& publish, const std::stop_token& stop = {},
                  std::int64_t mostForwards = std::numeric_limits<std::int64_t>::max(),
                  const ReadProgress& progress = {});

/// A trace that is being written. Each call of next() returns a whole document, but reads only new tasks and memory
/// samples: 0.3 us per new task and about 40 ns per existing one. Kernels, threads and streams are reread while that is
/// quick. After that they stay as they are until the trace is closed and loadDocument() reads it. Threading: one call
/// at a time runs, others wait.
class GrowingTrace {
public:
    explicit GrowingTrace(QString path);
    ~GrowingTrace();
    GrowingTrace(const GrowingTrace&) = delete;
    GrowingTrace& operator=(const GrowingTrace&) = delete;

    /// Throws like loadDocument().
    std::shared_ptr<const TraceDocument> next(const std::stop_token& stop = {});

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

/// The last document that loadDocument() publishes.
std::shared_ptr<const TraceDocument> loadTrace(const QString& path,
                                               std::int64_t mostForwards = std::numeric_limits<std::int64_t>::max());
}  // namespace pipescope
