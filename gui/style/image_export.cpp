#include "gui/style/image_export.h"

#include "base/error.h"
#include "gui/style/save_file.h"
#include "gui/style/theme.h"

#include <QAbstractButton>
#include <QAbstractSpinBox>
#include <QBuffer>
#include <QComboBox>
#include <QFileInfo>
#include <QLabel>
#include <QPageSize>
#include <QPainter>
#include <QPdfWriter>
#include <QRegularExpression>
#include <QScopeGuard>
#include <QSvgGenerator>
#include <QUuid>
#include <QWidget>

#include <vector>

namespace pipescope {
namespace {
constexpr int kPdfResolution = 96;

/// Hides buttons, lists and number fields while a part of the window is drawn, and shows them again: nobody can press
/// them in a picture. Everything else keeps its place. A picture of the whole window has them.
class HiddenControls {
public:
    explicit HiddenControls(const QWidget& drawn) {
        if (drawn.isWindow()) {
            return;
        }
        for (QWidget* each : drawn.findChildren<QWidget*>()) {
            const bool isControl = qobject_cast<QAbstractButton*>(each) != nullptr ||
                                   qobject_cast<QComboBox*>(each) != nullptr ||
                                   qobject_cast<QAbstractSpinBox*>(each) != nullptr;
            const auto* label = qobject_cast<QLabel*>(each);
            if (each->isVisible() && (isControl || (label != nullptr && label->buddy() != nullptr))) {
                hidden_.push_back({each, each->sizePolicy(), each->hasFocus()});
            }
        }
        for (const Hidden& each : hidden_) {
            QSizePolicy keeps = each.policy;
            keeps.setRetainSizeWhenHidden(true);
            each.control->setSizePolicy(keeps);
            each.control->hide();
        }
    }
    ~HiddenControls() {
        for (const Hidden& each : hidden_) {
            each.control->show();
            each.control->setSizePolicy(each.policy);
            if (each.hadFocus) {
                each.control->setFocus();
            }
        }
    }
    HiddenControls(const HiddenControls&) = delete;
    HiddenControls& operator=(const HiddenControls&) = delete;

private:
    struct Hidden {
        QWidget* control = nullptr;
        QSizePolicy policy;
        bool hadFocus = false;
    };
    std::vector<Hidden> hidden_;
};

void render(QWidget& widget, QPaintDevice& device) {
    QPainter painter(&device);
    widget.render(&painter);
}

void drawPdf(QWidget& widget, QBuffer& buffer) {
    QPdfWriter writer(&buffer);
    writer.setResolution(kPdfResolution);
    writer.setTitle(widget.windowTitle());
    writer.setPageSize(QPageSize(QSizeF(widget.size()) * 72 / kPdfResolution, QPageSize::Point));
    writer.setPageMargins(QMarginsF());
#if QT_VERSION >= QT_VERSION_CHECK(6, 8, 0)
    // Otherwise a random number, and the same picture would have other bytes.
    writer.setDocumentId(QUuid::createUuidV5(QUuid(), widget.windowTitle()));
#endif
    render(widget, writer);
}

/// Qt gives the size in millimetres, at a resolution that no reader has.
QByteArray inPixels(QByteArray svg, const QSize& size) {
    const qsizetype start = svg.indexOf("<svg width=");
    const qsizetype end = svg.indexOf('\n', start);
    if (start < 0 || end < 0) {
        return svg;
    }
    return svg.replace(
        start, end - start,
        QStringLiteral("<svg width=\"%1\" height=\"%2\"").arg(size.width()).arg(size.height()).toLatin1());
}

/// Replaces the times that Qt writes into every PDF: in its dictionary, and from Qt 6.8 on in its metadata too. Each
/// replacement has the same length, so the cross-reference table stays valid.
QByteArray withoutDates(QByteArray pdf) {
    static const QRegularExpression kDates(
        QStringLiteral("/(?:CreationDate|ModDate) \\(D:(\\d{14}[^)]*)\\)"
                       "|xmp:(?:CreateDate|ModifyDate|MetadataDate)=\"(\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d)"));
    QRegularExpressionMatchIterator dates = kDates.globalMatch(QString::fromLatin1(pdf));
    while (dates.hasNext()) {
        const QRegularExpressionMatch date = dates.next();
        const int group = date.lastCapturedIndex();
        const qsizetype length = date.capturedLength(group);
        pdf.replace(date.capturedStart(group), length,
                    group == 1 ? QByteArrayLiteral("20000101000000").leftJustified(length, 'Z', true)
                               : QByteArrayLiteral("2000-01-01T00:00:00"));
    }
    return pdf;
}
}  // namespace

ImageFormat imageFormatOf(const QString& path) {
    const QString ending = QFileInfo(path).suffix().toLower();
    if (ending == QLatin1String("png")) {
        return ImageFormat::png;
    }
    if (ending == QLatin1String("svg")) {
        return ImageFormat::svg;
    }
    if (ending == QLatin1String("pdf")) {
        return ImageFormat::pdf;
    }
    throw UsageError("'" + path.toStdString() +
                     "' does not name a picture: the name must end in .png, .svg or .pdf (or, for a whole tab as an "
                     "interactive page, in .html); try " +
                     path.toStdString() + ".png");
}

QByteArray drawImage(QWidget& widget, ImageFormat format) {
    QWidget* window = widget.window();
    window->setProperty(kInPicture, true);
    const auto done = qScopeGuard([window] { window->setProperty(kInPicture, false); });
    const HiddenControls hidden(widget);
    QBuffer buffer;
    buffer.open(QIODevice::WriteOnly);
    switch (format) {
        case ImageFormat::png: {
            QImage image(widget.size() * widget.devicePixelRatioF(), QImage::Format_RGB32);
            image.setDevicePixelRatio(widget.devicePixelRatioF());
            image.fill(widget.palette().color(QPalette::Window));
            render(widget, image);
            image.save(&buffer, "PNG");
            break;
        }
        case ImageFormat::svg: {
            QSvgGenerator generator;
            generator.setOutputDevice(&buffer);
            generator.setSize(widget.size());
            generator.setViewBox(QRect(QPoint(), widget.size()));
            generator.setTitle(widget.windowTitle());
            render(widget, generator);
            return wellFormed(inPixels(buffer.data(), widget.size()));
        }
        case ImageFormat::pdf: drawPdf(widget, buffer); return withoutDates(buffer.data());
    }
    return buffer.data();
}

void saveImage(QWidget& widget, const QString& path) {
    const QByteArray bytes = drawImage(widget, imageFormatOf(path));
    if (bytes.isEmpty()) {
        throw Error("the picture for '" + path.toStdString() + "' cannot be drawn; make the window smaller");
    }
    saveFile(path, bytes);
}
}  // namespace pipescope
