#include "gui/window/view_state.h"

#include <QCryptographicHash>
#include <QFileInfo>
#include <QSettings>

namespace pipescope {
namespace {
// If the meaning of stored values changes, this group gets a new name.
const QString kGroup = QStringLiteral("views-1/");
const QString kOrder = QStringLiteral("views-1/order");

QString keyOf(const QString& path) {
    const QByteArray absolute = QFileInfo(path).absoluteFilePath().toUtf8();
    return QString::fromLatin1(QCryptographicHash::hash(absolute, QCryptographicHash::Sha1).toHex());
}
}  // namespace

void saveViewState(QSettings& settings, const QString& path, const ViewState& state) {
    const QString key = keyOf(path);
    settings.beginGroup(kGroup + key);
    settings.setValue(QStringLiteral("file"), QFileInfo(path).absoluteFilePath());  // for people who read the settings
    settings.setValue(QStringLiteral("step"), state.step);
    settings.setValue(QStringLiteral("start"), qlonglong{state.visible.start});
    settings.setValue(QStringLiteral("end"), qlonglong{state.visible.end});
    settings.setValue(QStringLiteral("mode"), state.mode);
    settings.setValue(QStringLiteral("alignment"), state.alignment);
    settings.setValue(QStringLiteral("causes"), state.causes);
    settings.setValue(QStringLiteral("criticalPath"), state.criticalPath);
    settings.remove(QStringLiteral("marks"));
    settings.beginWriteArray(QStringLiteral("marks"));
    for (std::size_t i = 0; i < state.marks.size(); ++i) {
        settings.setArrayIndex(static_cast<int>(i));
        settings.setValue(QStringLiteral("time"), qlonglong{state.marks[i].time});
        settings.setValue(QStringLiteral("note"), state.marks[i].note);
    }
    settings.endArray();
    settings.endGroup();

    QStringList order = settings.value(kOrder).toStringList();
    order.removeAll(key);
    order.prepend(key);
    while (order.size() > kMostViewStates) {
        settings.remove(kGroup + order.takeLast());
    }
    settings.setValue(kOrder, order);
}

std::optional<ViewState> loadViewState(QSettings& settings, const QString& path) {
    const QString group = kGroup + keyOf(path);
    if (!settings.contains(group + QStringLiteral("/end"))) {
        return std::nullopt;
    }
    ViewState state;
    settings.beginGroup(group);
    state.step = settings.value(QStringLiteral("step")).toInt();
    state.visible = {settings.value(QStringLiteral("start")).toLongLong(),
                     settings.value(QStringLiteral("end")).toLongLong()};
    state.mode = settings.value(QStringLiteral("mode")).toString();
    state.alignment = settings.value(QStringLiteral("alignment")).toString();
    state.causes = settings.value(QStringLiteral("causes")).toBool();
    state.criticalPath = settings.value(QStringLiteral("criticalPath")).toBool();
    const int marks = settings.beginReadArray(QStringLiteral("marks"));
    for (int i = 0; i < marks; ++i) {
        settings.setArrayIndex(i);
        state.marks.push_back(
            {settings.value(QStringLiteral("time")).toLongLong(), settings.value(QStringLiteral("note")).toString()});
    }
    settings.endArray();
    settings.endGroup();
    return state.visible.end > state.visible.start ? std::optional(state) : std::nullopt;
}
}  // namespace pipescope
