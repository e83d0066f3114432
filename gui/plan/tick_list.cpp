#include "gui/plan/tick_list.h"

#include "base/error.h"
#include "gui/style/arrange.h"

#include <QListWidget>

#include <algorithm>

namespace pipescope {
QListWidget* createTicks(const QString& name, int rows, QWidget* parent) {
    auto* list = named(new QListWidget(parent), name);
    list->setTabKeyNavigation(false);
    list->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    list->setFixedHeight(std::max(rows * (list->fontMetrics().height() + 4) + 6, list->minimumSizeHint().height()));
    return list;
}

void addTick(QListWidget& list, const std::string& name, bool ticked) {
    auto* item = new QListWidgetItem(QString::fromStdString(name), &list);
    item->setFlags(Qt::ItemIsEnabled | Qt::ItemIsSelectable | Qt::ItemIsUserCheckable);
    item->setCheckState(ticked ? Qt::Checked : Qt::Unchecked);
}

std::vector<std::string> ticked(const QListWidget& list) {
    std::vector<std::string> names;
    for (int row = 0; row < list.count(); ++row) {
        if (list.item(row)->checkState() == Qt::Checked) {
            names.push_back(list.item(row)->text().toStdString());
        }
    }
    return names;
}

std::vector<std::string> someTicked(const QListWidget& list, const char* what) {
    std::vector<std::string> names = ticked(list);
    if (names.empty()) {
        throw UsageError(std::string("no ") + what + " is selected; a plan tries 1 or more; select some");
    }
    return names;
}
}  // namespace pipescope
