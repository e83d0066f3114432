#include "gui/report/timeline_page.h"

#include "base/error.h"
#include "gui/report/page_tables.h"
#include "gui/style/number_format.h"
#include "gui/style/save_file.h"

#include <QCryptographicHash>
#include <QFile>
#include <QFileInfo>

/// Registers the resources, which a static library does not do by itself. Outside of a namespace, as Qt requires.
static void registerTimelinePage() {
    Q_INIT_RESOURCE(timeline_page);
}

namespace pipescope {
namespace {
QByteArray resource(const char* name) {
    registerTimelinePage();
    QFile file(QStringLiteral(":/timeline_page/") + QLatin1String(name));
    if (!file.open(QIODevice::ReadOnly)) {
        throw Error("the program lacks its resource " + std::string(name) + "; build it again");
    }
    return file.readAll();
}

/// Permits exactly this text as an inline script or style.
QByteArray sourceHash(const QByteArray& text) {
    return "'sha256-" + QCryptographicHash::hash(text, QCryptographicHash::Sha256).toBase64() + "'";
}
}  // namespace

QByteArray timelinePageHtml(const PageScene& scene) {
    const QByteArray data = timelinePageData(scene);
    const QByteArray script = resource("timeline_page.js");
    const QByteArray style = resource("timeline_page.css");
    const QByteArray title = pageTitle(*scene.document).toHtmlEscaped().toUtf8();
    QByteArray html;
    html.reserve(data.size() + script.size() + style.size() + 2000);
    html += "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
    // No network, no other file, no other script: what a trace names cannot act.
    html += "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src " +
            sourceHash(script) + "; style-src " + sourceHash(style) + "; base-uri 'none'; form-action 'none'\">\n";
    html += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
    html += "<meta name=\"color-scheme\" content=\"light dark\">\n";
    html += "<meta name=\"generator\" content=\"PipeScope\">\n";
    html += "<title>" + title + "</title>\n<style>" + style + "</style>\n</head>\n<body>\n";
    html +=
        "<noscript><h1>" + title + "</h1><p>" +
        translated("This page draws timelines with JavaScript, which is switched off here.").toHtmlEscaped().toUtf8() +
        "</p></noscript>\n";
    html += "<script type=\"application/json\" id=\"data\">" + data + "</script>\n";
    html += "<script>" + script + "</script>\n</body>\n</html>\n";
    return wellFormed(html);
}

bool isPageName(const QString& path) {
    return QFileInfo(path).suffix().compare(QLatin1String("html"), Qt::CaseInsensitive) == 0;
}

void requirePageName(const QString& path) {
    if (!isPageName(path)) {
        const QString suffix = QFileInfo(path).suffix();
        const QString name = suffix.isEmpty() ? path + QLatin1Char('.') : path.chopped(suffix.size());
        throw UsageError("'" + path.toStdString() +
                         "' does not name an interactive page: the name must end in .html; write " +
                         name.toStdString() + "html, and print it from a browser for a PDF");
    }
}

void saveTimelinePage(const PageScene& scene, const QString& path) {
    requirePageName(path);
    saveFile(path, timelinePageHtml(scene));
}
}  // namespace pipescope
