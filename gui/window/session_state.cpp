#include "gui/window/session_state.h"

#include "base/scratch_folder.h"
#include "gui/document/viewed_files.h"
#include "gui/window/document_page.h"

#include <QCryptographicHash>
#include <QFileInfo>
#include <QSettings>

#include <algorithm>

namespace pipescope {
namespace {
constexpr int kMostRecentFiles = 10;
constexpr int kMostPages = 200;
// If the meaning of stored values changes, this group gets a new name.
const QString kPages = QStringLiteral("views-1/");
const QString kOrder = QStringLiteral("views-1/order");

QString keyOf(const QString& path) {
    const QByteArray absolute = QFileInfo(path).absoluteFilePath().toUtf8();
    return QString::fromLatin1(QCryptographicHash::hash(absolute, QCryptographicHash::Sha1).toHex());
}
QStringList textsOf(const auto& lanes) {
    QStringList texts;
    for (const LaneId lane : lanes) {
        texts << QString::number(lane.value());
    }
    return texts;
}

std::vector<LaneId> lanesOf(const QVariant& texts) {
    std::vector<LaneId> lanes;
    for (const QString& text : texts.toStringList()) {
        bool isNumber = false;
        const int lane = text.toInt(&isNumber);
        if (isNumber && lane >= 0) {
            lanes.emplace_back(lane);
        }
    }
    return lanes;
}

void saveArrangement(QSettings& settings, const LaneArrangement& arrangement) {
    QStringList groups;
    for (const std::string& group : arrangement.collapsedGroups) {
        groups << QString::fromStdString(group);
    }
    settings.setValue(QStringLiteral("lanes/order"), textsOf(arrangement.order));
    settings.setValue(QStringLiteral("lanes/pinned"), textsOf(arrangement.pinned));
    settings.setValue(QStringLiteral("lanes/collapsed"), textsOf(arrangement.collapsed));
    settings.setValue(QStringLiteral("lanes/grouped"), arrangement.grouped);
    settings.setValue(QStringLiteral("lanes/byHost"), arrangement.byHost);
    settings.setValue(QStringLiteral("lanes/collapsedGroups"), groups);
    settings.setValue(QStringLiteral("lanes/rowHeight"), arrangement.rowHeight.value_or(0));  // 0: as high as they fit
}

LaneArrangement savedArrangement(const QSettings& settings) {
    LaneArrangement arrangement;
    arrangement.order = lanesOf(settings.value(QStringLiteral("lanes/order")));
    for (const LaneId lane : lanesOf(settings.value(QStringLiteral("lanes/pinned")))) {
        arrangement.pinned.insert(lane);
    }
    for (const LaneId lane : lanesOf(settings.value(QStringLiteral("lanes/collapsed")))) {
        arrangement.collapsed.insert(lane);
    }
    arrangement.grouped = settings.value(QStringLiteral("lanes/grouped")).toBool();
    arrangement.byHost = settings.value(QStringLiteral("lanes/byHost")).toBool();
    for (const QString& group : settings.value(QStringLiteral("lanes/collapsedGroups")).toStringList()) {
        arrangement.collapsedGroups.insert(group.toStdString());
    }
    if (const int height = settings.value(QStringLiteral("lanes/rowHeight")).toInt(); height > 0) {
        arrangement.rowHeight = height;
    }
    return arrangement;
}
}  // namespace

QVariant SessionState::value(QLatin1String key) const {
    return settings_ != nullptr ? settings_->value(QString(key)) : QVariant();
}

void SessionState::setValue(QLatin1String key, const QVariant& value) {
    if (settings_ != nullptr) {
        settings_->setValue(QString(key), value);
    }
}

void SessionState::addRecentFile(const QString& path, const QString& about) {
    if (path.contains(QLatin1Char('/') + QLatin1String(ScratchFolder::kPrefix))) {
        return;
    }
    QStringList files = value(kRecentFilesKey).toStringList();
    const QString absolute = ViewedFiles(ViewedFiles::filesOf(path)).entry();
    files.removeAll(absolute);
    files.prepend(absolute);
    files = files.mid(0, kMostRecentFiles);
    setValue(kRecentFilesKey, files);
    QVariantMap known = value(kRecentFactsKey).toMap();
    QVariantMap facts;  // of the listed files only
    for (const QString& file : files) {
        facts[file] = known.value(file);
    }
    facts[absolute] = QStringList{about, QDateTime::currentDateTime().toString(Qt::ISODate)};
    setValue(kRecentFactsKey, facts);
}

void SessionState::removeRecentFile(const QString& path) {
    QStringList files = value(kRecentFilesKey).toStringList();
    files.removeAll(path);
    setValue(kRecentFilesKey, files);
}

QList<RecentFile> SessionState::recentFiles() const {
    const QVariantMap facts = value(kRecentFactsKey).toMap();
    QList<RecentFile> files;
    for (const QString& path : value(kRecentFilesKey).toStringList()) {
        const QStringList known = facts.value(path).toStringList();
        files << RecentFile{path, known.value(0), QDateTime::fromString(known.value(1), Qt::ISODate)};
    }
    return files;
}

void SessionState::savePage(const DocumentPage& page) {
    if (settings_ == nullptr || !page.document()) {
        return;
    }
    const QString key = keyOf(page.path());
    const TimeWindow& window = page.axis().window();
    const MarkChoice& choice = page.model().choice();
    std::vector<TimeMark> marks = page.axis().marks();
    std::erase_if(marks, [](const TimeMark& mark) { return mark.length > 0; });  // notes are beside the trace
    QSettings& settings = *settings_;
    settings.beginGroup(kPages + key);
    settings.setValue(QStringLiteral("file"), QFileInfo(page.path()).absoluteFilePath());  // for human readers
    settings.setValue(QStringLiteral("step"), page.model().step());
    settings.setValue(QStringLiteral("start"), qlonglong{window.start});
    settings.setValue(QStringLiteral("end"), window.start + static_cast<qlonglong>(window.length));
    settings.setValue(QStringLiteral("mode"), nameOf(choice.mode));
    settings.setValue(QStringLiteral("alignment"), nameOf(choice.alignment));
    settings.setValue(QStringLiteral("causes"), choice.causes);
    settings.setValue(QStringLiteral("criticalPath"), choice.criticalPath);
    saveArrangement(settings, page.model().arrangement());
    settings.remove(QStringLiteral("marks"));
    settings.beginWriteArray(QStringLiteral("marks"));
    for (std::size_t i = 0; i < marks.size(); ++i) {
        settings.setArrayIndex(static_cast<int>(i));
        settings.setValue(QStringLiteral("time"), qlonglong{marks[i].time});
        settings.setValue(QStringLiteral("note"), marks[i].note);
    }
    settings.endArray();
    settings.endGroup();

    QStringList order = settings.value(kOrder).toStringList();
    order.removeAll(key);
    order.prepend(key);
    while (order.size() > kMostPages) {
        settings.remove(kPages + order.takeLast());
    }
    settings.setValue(kOrder, order);
}

void SessionState::restorePage(DocumentPage& page) const {
    const QString group = kPages + keyOf(page.path());
    if (settings_ == nullptr || !settings_->contains(group + QStringLiteral("/end"))) {
        return;
    }
    QSettings& settings = *settings_;
    settings.beginGroup(group);
    const TimeRange visible{settings.value(QStringLiteral("start")).toLongLong(),
                            settings.value(QStringLiteral("end")).toLongLong()};
    const std::int32_t step = settings.value(QStringLiteral("step")).toInt();
    MarkChoice choice = page.model().choice();
    if (page.document()->measured && page.document()->simulated) {
        const QString modeName = settings.value(QStringLiteral("mode")).toString();
        for (const CompareMode mode : {CompareMode::side_by_side, CompareMode::overlay, CompareMode::difference}) {
            choice.mode = nameOf(mode) == modeName ? mode : choice.mode;
        }
        const QString alignmentName = settings.value(QStringLiteral("alignment")).toString();
        for (const Alignment alignment : {Alignment::first_task, Alignment::step, Alignment::task}) {
            choice.alignment = nameOf(alignment) == alignmentName ? alignment : choice.alignment;
        }
    }
    choice.causes = settings.value(QStringLiteral("causes")).toBool();
    choice.criticalPath = settings.value(QStringLiteral("criticalPath")).toBool();
    std::vector<TimeMark> marks(static_cast<std::size_t>(settings.beginReadArray(QStringLiteral("marks"))));
    for (std::size_t i = 0; i < marks.size(); ++i) {
        settings.setArrayIndex(static_cast<int>(i));
        marks[i] = {settings.value(QStringLiteral("time")).toLongLong(),
                    settings.value(QStringLiteral("note")).toString(), 0};
    }
    settings.endArray();
    LaneArrangement arrangement = savedArrangement(settings);
    settings.endGroup();
    if (visible.end <= visible.start) {
        return;
    }
    page.model().selectStep(step);
    page.notes().restoreMarks(std::move(marks));
    page.model().setChoice(choice);
    page.model().setArrangement(std::move(arrangement));
    const TimeRange& total = page.axis().total();
    if (visible.start < total.end && visible.end > total.start) {  // otherwise another run
        page.axis().show(visible);
    }
}
}  // namespace pipescope
