#pragma once

#include "gui/document/trace_document.h"

#include <QString>

#include <memory>

namespace pipescope {
/// Opens a trace, simulates what it was configured to be from the profile inside it, and compares the two. What cannot
/// be had becomes a note of the document. Threading: any thread. Throws Error for a file that cannot be read, is no
/// trace, or holds no task.
std::shared_ptr<const TraceDocument> loadTrace(const QString& path);
}  // namespace pipescope
