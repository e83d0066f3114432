#include "gui/report/report.h"
#include "gui/style/number_format.h"
#include "gui/style/save_file.h"

#include "base/error.h"

#include <QBuffer>
#include <QFileInfo>
#include <QImage>
#include <QPageLayout>
#include <QPageSize>
#include <QPdfWriter>
#include <QTextDocument>
#include <QUrl>

#include <algorithm>

namespace pipescope {
namespace {
constexpr int kPdfResolution = 96;
constexpr double kPointsPerInch = 72;
constexpr int kPageMargin = 12;  // mm
const QString kPictureName = QStringLiteral("timelines.png");

/// Style common to paper and screen. Paper adds its own margins.
const char* style() {
    return "body{font-family:sans-serif;color:#222;background:#fff}"
           "h1{font-size:1.5em}h2{font-size:1.1em;margin-top:1.4em}"
           "table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:3px 8px;border-bottom:1px solid "
           "#ddd;"
           "vertical-align:top}th{background:#f3f3f3}.number{text-align:right}td.number{white-space:nowrap}"
           ".warning{background:#fbdcd9;border-left:4px solid #d55e00;padding:6px 10px;margin:6px 0}"
           "img{max-width:100%;border:1px solid #ccc}.note{color:#555}";
}

const char* screenStyle() {
    return "body{max-width:1100px;margin:1.5em auto;padding:0 1em}";
}

/// True if the cell starts with a digit or a sign, or marks a missing figure.
bool isNumber(const QString& cell) {
    return cell.isEmpty() || cell[0].isDigit() || cell[0] == QChar(0x2212) || cell[0] == QChar(0x2013) ||
           cell[0] == QLatin1Char('+');
}

/// Columns of figures are right-aligned. The first column names the row.
bool isOfNumbers(const ReportTable& table, qsizetype column) {
    return column > 0 && std::all_of(table.rows.begin(), table.rows.end(), [column](const QStringList& row) {
               return column >= row.size() || isNumber(row[column]);
           });
}

QString cellHtml(const char* element, const QString& text, bool number) {
    // Qt's rich text takes a heading's alignment only from the attribute.
    return QStringLiteral("<%1%2>%3</%1>")
        .arg(QLatin1String(element),
             number ? QStringLiteral(" class=\"number\" align=\"right\"") : QStringLiteral(" align=\"left\""),
             text.toHtmlEscaped());
}

QString tableHtml(const ReportTable& table, bool paper) {
    QString html = QStringLiteral("<h2>%1</h2>\n").arg(table.title.toHtmlEscaped());
    if (!table.rows.empty()) {
        // Qt's rich text does not support border-collapse.
        html += paper ? QStringLiteral("<table width=\"100%\" cellspacing=\"0\" cellpadding=\"3\">\n<tr>")
                      : QStringLiteral("<table>\n<tr>");
        for (qsizetype i = 0; i < table.header.size(); ++i) {
            html += cellHtml("th", table.header[i], isOfNumbers(table, i));
        }
        html += QStringLiteral("</tr>\n");
        for (const QStringList& row : table.rows) {
            html += QStringLiteral("<tr>");
            for (qsizetype i = 0; i < row.size(); ++i) {
                html += cellHtml("td", row[i], isOfNumbers(table, i));
            }
            html += QStringLiteral("</tr>\n");
        }
        html += QStringLiteral("</table>\n");
    }
    return table.note.isEmpty() ? html
                                : html + QStringLiteral("<p class=\"note\">%1</p>\n").arg(table.note.toHtmlEscaped());
}

/// `image`: the <img> element, or empty.
QString page(const Report& report, const QString& image, bool paper) {
    QString html = QStringLiteral(
                       "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                       // No network, no script: what a trace names cannot act.
                       "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; "
                       "style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n<title>%1</title>\n"
                       "<style>%2</style>\n</head>\n<body>\n<h1>%1</h1>\n<p>%3</p>\n")
                       .arg(report.title.toHtmlEscaped(),
                            QString::fromLatin1(style()) + QString::fromLatin1(paper ? "" : screenStyle()),
                            report.summary.toHtmlEscaped());
    for (const QString& warning : report.warnings) {
        html += QStringLiteral("<p class=\"warning\"><b>⚠</b> %1</p>\n").arg(warning.toHtmlEscaped());
    }
    html += image;
    for (const ReportTable& table : report.tables) {
        html += tableHtml(table, paper);
    }
    return html +
           QStringLiteral("<p class=\"note\">%1</p>\n</body>\n</html>\n").arg(translated("Written by PipeScope."));
}
}  // namespace

QByteArray reportHtml(const Report& report) {
    const QString image = report.picture.isEmpty()
                              ? QString()
                              : QStringLiteral("<p><img alt=\"%1\" src=\"data:image/png;base64,%2\"></p>\n")
                                    .arg(translated("The measured timeline above the simulated one"),
                                         QString::fromLatin1(report.picture.toBase64()));
    return wellFormed(page(report, image, false).toUtf8());
}

QByteArray reportPdf(const Report& report) {
    QBuffer buffer;
    buffer.open(QIODevice::WriteOnly);
    {
        QPdfWriter writer(&buffer);
        writer.setTitle(report.title);
        writer.setResolution(kPdfResolution);
        writer.setPageSize(QPageSize(QPageSize::A4));
        writer.setPageMargins(QMarginsF(kPageMargin, kPageMargin, kPageMargin, kPageMargin), QPageLayout::Millimeter);
        QTextDocument document;
        const QImage picture = QImage::fromData(report.picture, "PNG");
        QString image;
        if (!picture.isNull()) {
            document.addResource(QTextDocument::ImageResource, QUrl(kPictureName), picture);
            const int width = std::min(picture.width(), writer.width());
            image = QStringLiteral("<p><img src=\"%1\" width=\"%2\"></p>").arg(kPictureName).arg(width);
        }
        document.setDocumentMargin(0);
        document.setHtml(page(report, image, true));
        document.setTextWidth(writer.width());
        // A single page of any length, so that no table is split. Printers scale it to their paper.
        const QSizeF paper = writer.pageLayout().fullRect(QPageLayout::Point).size();
        const double lacking = document.size().height() + 1 - writer.height();
        if (lacking > 0) {
            writer.setPageSize(QPageSize(paper + QSizeF(0, lacking * kPointsPerInch / kPdfResolution), QPageSize::Point,
                                         {}, QPageSize::ExactMatch));
        }
        document.setPageSize(QSizeF(writer.width(), writer.height()));
        document.print(&writer);
    }
    return buffer.data();
}

void requireReportName(const QString& path) {
    const QString ending = QFileInfo(path).suffix().toLower();
    if (ending != QLatin1String("html") && ending != QLatin1String("pdf")) {
        throw UsageError("'" + path.toStdString() +
                         "' does not name a report: the name must end in .html or .pdf; try " + path.toStdString() +
                         ".html");
    }
}

void saveReport(const Report& report, const QString& path) {
    requireReportName(path);
    saveFile(path, path.endsWith(QLatin1String("pdf"), Qt::CaseInsensitive) ? reportPdf(report) : reportHtml(report));
}
}  // namespace pipescope
