#pragma once

#include "gui/document/query_tracks.h"
#include "gui/document/trace_document.h"
#include "gui/style/work_pool.h"
#include "trace/store/sql_query.h"

#include <QObject>
#include <QStringList>

#include <functional>
#include <memory>
#include <vector>

namespace pipescope {
/// The user's own tracks of a page: queries, kept in the file of notes beside the trace, and what they give. Threading:
/// the GUI thread; queries run in a worker.
class PageTracks : public QObject {
    Q_OBJECT

public:
    /// Gives what a query reads, in its worker.
    struct Queried {
        std::function<QString()> database;
        std::function<std::vector<SqlTable>(const std::string& sql, const std::function<bool()>& cancelled)> tables;
    };

    explicit PageTracks(QObject* parent) : QObject(parent) {}

    /// Reads the tracks of the trace, and runs their queries: `changed` follows, or `failed`. Does nothing without
    /// tracks.
    void load(const QString& trace, Queried queried);
    /// Runs the queries again, as after the trace was read again. Does nothing without tracks.
    void refresh(Queried queried);
    /// Adds a track, or replaces the one of this name, and saves.
    void add(const QueryTrack& track, Queried queried);
    /// Removes the track of this name, if there is one, and saves.
    void remove(const QString& name, Queried queried);
    QStringList names() const;
    /// The document with the tracks that were drawn last.
    std::shared_ptr<const TraceDocument> added(std::shared_ptr<const TraceDocument> document) const;

Q_SIGNALS:
    /// added() gives other tracks.
    void changed();
    void failed(const QString& text);
    /// The tracks are in the file again.
    void saved();

private:
    void keep(std::vector<QueryTrack> tracks, Queried queried);
    void run(Queried queried);

    QString trace_;  // empty: not to be saved
    std::vector<QueryTrack> tracks_;
    std::shared_ptr<const TrackStore> drawn_;  // null: none
    LatestJob job_;
};
}  // namespace pipescope
