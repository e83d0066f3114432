#pragma once

#include <QDateTime>
#include <QLatin1String>
#include <QList>
#include <QString>
#include <QStringList>
#include <QVariant>

class QSettings;

namespace pipescope {
class DocumentPage;

// Keys of the viewer's settings. If the meaning of a key changes, it gets a new number.

inline constexpr QLatin1String kWindowGeometryKey("window/geometry");
/// Layout of the docks. QMainWindow rejects one of another version.
inline constexpr QLatin1String kWindowStateKey("window/state");
inline constexpr QLatin1String kNarrowWindowStateKey("window/narrowState");
/// system, light or dark.
inline constexpr QLatin1String kThemeKey("window/theme");
/// step, file or clock: what times count from.
inline constexpr QLatin1String kTimesKey("window/times");
/// Queries of the SQL console, most recent first.
inline constexpr QLatin1String kQueriesKey("console/queries");
/// Absolute paths, most recent first. Files that were open as one timeline are one entry, a path on each line.
inline constexpr QLatin1String kRecentFilesKey("files/recent");
/// The tabs in order, and the current one.
inline constexpr QLatin1String kOpenFilesKey("files/open");
inline constexpr QLatin1String kCurrentFileKey("files/current");

/// Description and opening time of each recent file, by path.
inline constexpr QLatin1String kRecentFactsKey("files/recentFacts");

struct RecentFile {
    QString path;      ///< absolute; of several files, one a line
    QString about;     ///< "recorded run, mlp, 4 lanes, 10 steps"; empty: unknown
    QDateTime opened;  ///< invalid: unknown
};

/// Stores the window's layout and theme, its files and queries, for the next run. Stores nothing without settings.
class SessionState {
public:
    /// `settings` may be null, and must outlive this object.
    explicit SessionState(QSettings* settings) : settings_(settings) {}

    QVariant value(QLatin1String key) const;
    void setValue(QLatin1String key, const QVariant& value);
    /// Puts a file, or an entry of several (ViewedFiles::entry()), in front of the recent ones, of which ten are kept.
    /// `about` says what it is. Temporary files (ScratchFolder) are left out.
    void addRecentFile(const QString& path, const QString& about = {});
    void removeRecentFile(const QString& path);
    /// The most recent first; files may be gone.
    QList<RecentFile> recentFiles() const;

    /// Saves how the page shows its file, under a key derived from the path: step, visible part, marks, comparison. Of
    /// more than 200 files, the least recently saved ones are forgotten. States of a later version of the viewer are
    /// neither changed nor read.
    void savePage(const DocumentPage& page);
    /// Shows the page's file as it was saved, as far as that part still exists.
    void restorePage(DocumentPage& page) const;

private:
    QSettings* settings_;
};
}  // namespace pipescope
