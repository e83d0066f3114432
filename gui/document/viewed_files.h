#pragma once

#include "base/scratch_folder.h"
#include "trace/foreign/gzip_stream.h"

#include <QString>
#include <QStringList>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace pipescope {
std::vector<std::filesystem::path> pathsOf(const QStringList& files);

/// The file that a page shows, or the files of one run's processes, which are joined into a temporary trace.
/// Threading: all functions may be called from any thread; joining and importing block the caller.
class ViewedFiles {
public:
    /// One file or several. Several must be of one run (are_of_one_run()).
    explicit ViewedFiles(QStringList files);
    /// An entry of the session, made by entry().
    static QStringList filesOf(const QString& entry) { return entry.split(QLatin1Char('\n'), Qt::SkipEmptyParts); }
    static bool exist(const QString& entry);
    /// "out.rank0 + out.rank1.sqlite" of several files, otherwise the file's name.
    static QString nameOf(const QStringList& files);

    const QStringList& files() const { return files_; }
    /// True if fileToRead() makes the file anew each time, so that none can be read further.
    bool areSeveral() const { return files_.size() > 1; }
    /// The files' absolute paths, one a line.
    QString entry() const;
    /// The file, or a place beside the first of several, under their joined name. There need not be such a file; notes
    /// are kept beside it.
    QString path() const { return path_; }

    /// The file to read now. Joins several files anew, and tells the share that is done. Throws the errors of pathOf()
    /// and merge_any().
    QString fileToRead(const ReadProgress& progress = {});
    /// The SQLite file to query: the trace itself, the joined one, or one that is imported at the first call. Throws
    /// the errors of merge_any(), and Error if another file took the place of the one that fileToRead() gave.
    QString database();

private:
    QString newPlace();

    const QStringList files_;
    const QString path_;
    std::mutex mutex_;
    // Guarded by `mutex_`.
    std::unique_ptr<ScratchFolder> folder_;  // made when it is needed
    int places_ = 0;
    std::pair<std::uint64_t, std::uint64_t> read_;  // device and inode of the file that was read; 0: none
    QString joined_;                                // the last joined trace of several
    QString imported_;                              // empty: not yet, or the file was read again since
};
}  // namespace pipescope
