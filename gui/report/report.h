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

/// One page about one run: how it was configured, what was measured beside what was simulated, how far they are apart,
/// what was lost, and where it ran. Texts for people.
struct Report {
    QString title;
    QString summary;
    QStringList warnings;  ///< what must be known before a figure is trusted
    std::vector<ReportTable> tables;
    QByteArray picture;  ///< PNG of the timelines; may be empty
};

/// What a document tells of measured step `step`; what the file alone knows (environment, losses) is read from it.
/// Bubble fractions are refused where the recorder lost ranges, since they would count what was lost as idle.
Report makeReport(const TraceDocument& document, std::int32_t step);

/// One HTML page without references to other files.
QByteArray reportHtml(const Report& report);
/// One page as wide as A4, and longer than it where a run has much to tell.
QByteArray reportPdf(const Report& report);
/// Whether the name ends in .html or .pdf. Throws UsageError otherwise.
void requireReportName(const QString& path);
/// By the ending of the name. Throws UsageError for another one, Error if it cannot be written.
void saveReport(const Report& report, const QString& path);
}  // namespace pipescope
