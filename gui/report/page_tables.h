#pragma once

#include "gui/document/trace_document.h"
#include "simulator/plan/advice.h"

#include <QString>
#include <QStringList>

#include <vector>

namespace pipescope {
struct PageTable {
    QString title;
    QStringList header;
    std::vector<QStringList> rows;
    QString note;  ///< below the table
};

/// "model – file", or the file's name.
QString pageTitle(const TraceDocument& document);
/// Figures of the compared steps, measured and simulated; peaks are those of `step`. The first rows are the step time,
/// the bubble and, if it is known, the peak memory. Omits bubble fractions if the recorder lost ranges, because lost
/// work would count as idle.
PageTable figuresTable(const TraceDocument& document, std::int32_t step);
/// Busy time, bubble and peak memory of each lane in the step.
PageTable lanesTable(const TraceDocument& document, std::int32_t step);
/// Single changes of the pipeline, the best first, with their predicted effects.
PageTable adviceTable(const Advice& advice);
/// Tasks that differ most and tasks without a twin, configuration, processes, lost records, diagnostics, environment;
/// without those that are empty. Reads the last three from the file.
std::vector<PageTable> runTables(const TraceDocument& document);
}  // namespace pipescope
