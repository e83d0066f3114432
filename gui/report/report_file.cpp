#include "gui/report/report.h"

#include "schedule/error.h"

#include <QBuffer>
#include <QCoreApplication>
#include <QFileInfo>
#include <QImage>
#include <QPageSize>
#include <QPdfWriter>
#include <QSaveFile>
#include <QTextDocument>
#include <QUrl>

#include <algorithm>

namespace pipescope {
namespace {
constexpr int kPdfResolution = 96;
constexpr int kPageMargin = 12;  // mm
const QString kPictureName = QStringLiteral("timelines.png");

QString tr(const char* text) {
    return QCoreApplication::translate("Report", text);
}

const char* style() {
    return "body{font-family:sans-serif;color:#222;background:#fff;max-width:1100px;margin:1.5em auto;padding:0 1em}"
           "h1{font-size:1.5em}h2{font-size:1.1em;margin-top:1.4em}"
           "table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:3px 8px;border-bottom:1px solid "
           "#ddd;"
           "vertical-align:top}th{background:#f3f3f3}.number{text-align:right;white-space:nowrap}"
           ".warning{background:#fbdcd9;border-left:4px solid #d55e00;padding:6px 10px;margin:6px 0}"
           "img{max-width:100%;border:1px solid #ccc}.note{color:#555}";
}

/// A cell that begins with a digit or a sign stands right, under its like.
bool isNumber(const QString& cell) {
    return !cell.isEmpty() && (cell[0].isDigit() || cell[0] == QChar(0x2212) || cell[0] == QLatin1Char('+'));
}

QString tableHtml(const ReportTable& table, bool paper) {
    QString html = QStringLiteral("<h2>%1</h2>\n").arg(table.title.toHtmlEscaped());
    if (!table.rows.empty()) {
        // Qt's rich text knows no border-collapse.
        html += paper ? QStringLiteral("<table width=\"100%\" cellspacing=\"0\" cellpadding=\"3\">\n<tr>")
                      : QStringLiteral("<table>\n<tr>");
        for (const QString& each : table.header) {
            html += QStringLiteral("<th align=\"left\">%1</th>").arg(each.toHtmlEscaped());
        }
        html += QStringLiteral("</tr>\n");
        for (const QStringList& row : table.rows) {
            html += QStringLiteral("<tr>");
            for (qsizetype i = 0; i < row.size(); ++i) {
                html += QStringLiteral("<td%1>%2</td>")
                            .arg(i > 0 && isNumber(row[i]) ? QStringLiteral(" class=\"number\"") : QString(),
                                 row[i].toHtmlEscaped());
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
                       "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>%1</title>\n"
                       "<style>%2</style>\n</head>\n<body>\n<h1>%1</h1>\n<p>%3</p>\n")
                       .arg(report.title.toHtmlEscaped(), QString::fromLatin1(style()), report.summary.toHtmlEscaped());
    for (const QString& warning : report.warnings) {
        html += QStringLiteral("<p class=\"warning\"><b>⚠</b> %1</p>\n").arg(warning.toHtmlEscaped());
    }
    html += image;
    for (const ReportTable& table : report.tables) {
        html += tableHtml(table, paper);
    }
    return html + QStringLiteral("<p class=\"note\">%1</p>\n</body>\n</html>\n").arg(tr("Written by PipeScope."));
}
}  // namespace

QByteArray reportHtml(const Report& report) {
    const QString image = report.picture.isEmpty()
                              ? QString()
                              : QStringLiteral("<p><img alt=\"%1\" src=\"data:image/png;base64,%2\"></p>\n")
                                    .arg(tr("The measured timeline above the simulated one"),
                                         QString::fromLatin1(report.picture.toBase64()));
    return page(report, image, false).toUtf8();
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
            const int width = std::min(picture.width(), writer.width() - 2 * kPageMargin);
            image = QStringLiteral("<p><img src=\"%1\" width=\"%2\"></p>").arg(kPictureName).arg(width);
        }
        document.setPageSize(QSizeF(writer.width(), writer.height()));
        document.setHtml(page(report, image, true));
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
    const QByteArray bytes =
        path.endsWith(QLatin1String("pdf"), Qt::CaseInsensitive) ? reportPdf(report) : reportHtml(report);
    QSaveFile file(path);
    if (!file.open(QIODevice::WriteOnly) || file.write(bytes) != bytes.size() || !file.commit()) {
        throw Error("cannot write '" + path.toStdString() + "': " + file.errorString().toStdString() +
                    "; the folder must exist and be writable, choose another place");
    }
}
}  // namespace pipescope
