#pragma once

#include "gui/document/trace_document.h"

#include <QString>

#include <functional>
#include <memory>
#include <stop_token>

namespace pipescope {
/// Takes documents of one file as they become fuller; called in the loading thread.
using PublishDocument = std::function<void(std::shared_ptr<const TraceDocument>)>;

/// Opens whatever trace/open_trace.h knows: a trace, finished or being written, an export of nsys, JSON of Kineto or
/// Chrome, a profile (which is simulated alone). Simulates what the trace was configured to be from the profile inside
/// it, and compares the two. What cannot be had becomes a note of the document.
///
/// A large trace is published in parts, each a document that can be shown: the first steps after a fifth of a second,
/// all tasks (read on every core, at 25 bytes each) a few seconds later, then memory, comparison and tracks. Small ones
/// come once. Threading: any thread. Stops early, with what was published so far, once `stop` is requested. Throws
/// Error for a file that cannot be read, is none of these, or holds nothing to draw.
void loadDocument(const QString& path, const PublishDocument& publish, const std::stop_token& stop = {});

/// A trace that is being written. Each call of next() gives a whole document, but reads only the tasks and the memory
/// samples that came since the one before: 0.3 us a task, and about 40 ns for each that is there already. Kernels,
/// threads and streams are read anew as long as that is quick; later they are as they were, until the trace is closed
/// and loadDocument() reads it. Threading: one call at a time runs, others wait.
class GrowingTrace {
public:
    explicit GrowingTrace(QString path);
    ~GrowingTrace();
    GrowingTrace(const GrowingTrace&) = delete;
    GrowingTrace& operator=(const GrowingTrace&) = delete;

    /// Errors: those of loadDocument().
    std::shared_ptr<const TraceDocument> next(const std::stop_token& stop = {});

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

/// The last of these documents.
std::shared_ptr<const TraceDocument> loadTrace(const QString& path);
}  // namespace pipescope
