#pragma once

#include "gui/document/trace_document.h"

#include <QByteArray>
#include <QString>
#include <QStringList>

#include <vector>

namespace pipescope {
struct ReportTable {
    QString title;
    QStringList header;
    std::vector<QStringList> rows;
    QString note;  ///< below the table
};

/// A one-page report of a run: configuration, measured and simulated figures, their errors, lost records, and
/// environment. Human-readable texts.
struct Report {
    QString title;
    QString summary;
    QStringList warnings;  ///< must be known before trusting a figure
    std::vector<ReportTable> tables;
    QByteArray picture;  ///< PNG of the timelines; may be empty
};

/// Creates the report of measured step `step` from a document. Reads facts that only the file has (environment, lost
/// records) from the file. Omits bubble fractions if the recorder lost ranges, because lost work would count as idle.
Report makeReport(const TraceDocument& document, std::int32_t step);

/// "model – file", or the file's name.
QString reportTitle(const TraceDocument& document);
/// Figures of the compared steps, measured and simulated; peaks are those of `step`. The first rows are the step time,
/// the bubble and, if it is known, the peak memory.
ReportTable figuresTable(const TraceDocument& document, std::int32_t step);
/// Busy time, bubble and peak memory of each lane in the step.
ReportTable lanesTable(const TraceDocument& document, std::int32_t step);

/// One self-contained HTML page.
QByteArray reportHtml(const Report& report);
/// One page of A4 width, extended in length if necessary.
QByteArray reportPdf(const Report& report);
/// Throws UsageError unless the name ends in .html or .pdf.
void requireReportName(const QString& path);
/// Saves by the suffix of the name. Throws UsageError for another suffix, Error if it cannot be written.
void saveReport(const Report& report, const QString& path);

/// Facts in a trace that no view shows. Rows of texts; empty if the file is not a PipeScope trace.
struct RunFacts {
    std::vector<QStringList> environment;  ///< property, value
    std::vector<QStringList> losses;       ///< source, recorded, dropped, truncated, open at exit
    std::vector<QStringList> diagnostics;  ///< severity, source, text
};

RunFacts readRunFacts(const QString& path);
}  // namespace pipescope
