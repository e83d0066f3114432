#include "gui/window/window_exports.h"

#include "gui/style/image_export.h"
#include "gui/tables/table_export.h"
#include "schedule/error.h"

#include <QCoreApplication>
#include <QWidget>

namespace pipescope {
namespace {
constexpr QSize kLeastHidden{800, 200};  // what is not laid out has no size worth a picture

/// Gives a widget that nobody sees the size that it would like, for as long as this lives.
class ReadableSize {
public:
    explicit ReadableSize(QWidget& widget) : widget_(widget), before_(widget.size()) {
        if (!widget.isVisible()) {
            widget.resize(before_.expandedTo(widget.sizeHint()).expandedTo(kLeastHidden));
        }
    }
    ~ReadableSize() { widget_.resize(before_); }
    ReadableSize(const ReadableSize&) = delete;
    ReadableSize& operator=(const ReadableSize&) = delete;

private:
    QWidget& widget_;
    QSize before_;
};
}  // namespace

QString WindowExport::fileFilter() const {
    return isTable() ? QCoreApplication::translate("WindowExport", "Tables (*.csv *.json)")
                     : QCoreApplication::translate("WindowExport", "Images (*.png *.svg *.pdf)");
}

void saveExport(const WindowExport& what, const QString& path) {
    if (!what.isThere()) {
        throw Error("there is nothing to write into '" + path.toStdString() + "'; " + what.remedy.toStdString());
    }
    if (what.isTable()) {
        saveTable(*what.model(), path);
        return;
    }
    QWidget& widget = *what.widget();
    const ReadableSize size(widget);
    saveImage(widget, path);
}
}  // namespace pipescope
