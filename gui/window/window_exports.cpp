#include "gui/window/window_exports.h"

#include "gui/style/image_export.h"
#include "gui/style/text.h"
#include "gui/tables/table_export.h"
#include "schedule/error.h"

#include <QPixmap>
#include <QWidget>

namespace pipescope {
namespace {
constexpr int kLeastWidth = 800;  // needed to read labels and axes

/// Gives a chart its preferred size during its lifetime. Beside tables there may be little room, and hidden widgets
/// were never laid out.
class ReadableSize {
public:
    explicit ReadableSize(QWidget& widget) : widget_(widget), before_(widget.size()) {
        const bool isPainted = widget.findChild<QWidget*>() == nullptr;  // others are laid out when shown
        if (isPainted || !widget.isVisible()) {
            widget.grab();  // completes pending layouts, which would otherwise undo the size
            widget.resize(before_.expandedTo(widget.sizeHint()).expandedTo({kLeastWidth, 0}));
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
    return isTable() ? translated("Tables (*.csv *.json)") : translated("Images (*.png *.svg *.pdf)");
}

void saveExport(const WindowExport& what, const QString& path) {
    if (!what.isThere()) {
        throw Error("there is nothing to write to '" + path.toStdString() + "'; " + what.remedy.toStdString());
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
