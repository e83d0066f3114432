#pragma once

#include "gui/document/trace_document.h"
#include "trace/store/sql_query.h"

#include <cstdint>
#include <functional>
#include <string>

namespace pipescope {
/// Name of the table of bubbles that queries may read.
inline constexpr const char* kBubbleTable = "PIPESCOPE_BUBBLE";

/// True if a query names the table, so that it has to be made.
bool readsBubbles(const std::string& sql);
/// The bubbles of the compared steps, of the `shown` one, and of the simulated step; docs/viewer/tables.md lists the
/// columns. Steps whose measured bubbles are not known are left out. Stops early, with a part, once `cancelled` says
/// so. Threading: any thread. Cost: O(slices log slices) of those steps.
SqlTable bubbleTable(
    const TraceDocument& document, std::int32_t shown, const std::function<bool()>& cancelled = [] { return false; });
}  // namespace pipescope
