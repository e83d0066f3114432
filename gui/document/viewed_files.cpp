#include "gui/document/viewed_files.h"

#include "base/error.h"
#include "gui/style/file_name.h"
#include "trace/merge/run_files.h"
#include "trace/store/trace_parts.h"

#include <QDir>
#include <QFileInfo>

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
/// Device and inode: a file that takes another one's place has others. Zeros if there is no file.
std::pair<std::uint64_t, std::uint64_t> identityOf(const QString& path) {
    struct stat found {};
    return stat(path.toStdString().c_str(), &found) == 0
               ? std::pair<std::uint64_t, std::uint64_t>{found.st_dev, found.st_ino}
               : std::pair<std::uint64_t, std::uint64_t>{};
}
}  // namespace

std::vector<std::filesystem::path> pathsOf(const QStringList& files) {
    std::vector<std::filesystem::path> paths;
    for (const QString& file : files) {
        paths.emplace_back(file.toStdString());
    }
    return paths;
}

ViewedFiles::ViewedFiles(QStringList files)
    : files_(std::move(files)),
      path_(files_.size() == 1 ? files_.front() : QString::fromStdString(joined_path(pathsOf(files_)).string())) {}

QString ViewedFiles::nameOf(const QStringList& files) {
    return files.size() == 1 ? QFileInfo(files.front()).fileName()
                             : QString::fromStdString(joined_name(pathsOf(files)));
}

bool ViewedFiles::exist(const QString& entry) {
    const QStringList files = filesOf(entry);
    return !files.isEmpty() &&
           std::all_of(files.begin(), files.end(), [](const QString& file) { return QFileInfo::exists(file); });
}

QString ViewedFiles::entry() const {
    QStringList absolute;
    for (const QString& file : files_) {
        absolute << QFileInfo(file).absoluteFilePath();
    }
    return absolute.join(QLatin1Char('\n'));
}

/// A new name, since somebody may still read the file before.
QString ViewedFiles::newPlace() {
    if (!folder_) {
        folder_ = std::make_unique<ScratchFolder>();
    }
    const QDir folder(QString::fromStdString(folder_->path().string()));
    const QDir place(folder.filePath(QString::number(places_++)));
    place.mkpath(QStringLiteral("."));
    QDir(folder.filePath(QString::number(places_ - 3))).removeRecursively();  // nobody reads the one before the last
    QString name = QFileInfo(nameOf(files_)).fileName();
    const bool isNamed = areSeveral() || name.endsWith(QLatin1String(".sqlite"));
    return place.filePath(isNamed ? name : name + QStringLiteral(".sqlite"));
}

QString ViewedFiles::fileToRead(const ReadProgress& progress) {
    std::ranges::for_each(files_, pathOf);  // refuses names that look like another one
    const std::lock_guard lock(mutex_);
    imported_.clear();
    if (!areSeveral()) {
        read_ = identityOf(files_.front());
        return files_.front();
    }
    const QString place = newPlace();
    merge_any(pathsOf(files_), place.toStdString(), IfExists::refuse, {}, {},
              {.progress = progress});  // its warnings are in the trace
    joined_ = place;
    return joined_;
}

QString ViewedFiles::database() {
    const std::lock_guard lock(mutex_);
    if (areSeveral()) {
        return joined_;
    }
    if (const auto now = identityOf(files_.front()); read_.second != 0 && now != read_) {
        throw Error(files_.front().toStdString() +
                    (now.second == 0 ? " was deleted or moved since it was read; open it from its new place"
                                     : " is no longer the file that is shown: another one took its place; open it "
                                       "again, or press F5"));
    }
    if (is_sqlite_file(files_.front().toStdString())) {
        return files_.front();
    }
    if (imported_.isEmpty()) {
        const QString place = newPlace();
        merge_any(pathsOf(files_), place.toStdString(), IfExists::refuse, {}, {});
        imported_ = place;
    }
    return imported_;
}
}  // namespace pipescope
