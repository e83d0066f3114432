#pragma once

#include "gui/document/query_tracks.h"
#include "gui/document/trace_document.h"
#include "gui/style/work_pool.h"
#include "trace/store/sql_query.h"

#include <QObject>
#include <QPointer>
#include <QStringList>
#include <QUndoStack>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace pipescope {
/// The user's own tracks of a page: queries, kept in the file of notes beside the trace, and what they give. Every
/// change is on the undo stack. Threading: the GUI thread; queries run in a worker.
class PageTracks : public QObject {
    Q_OBJECT

public:
    /// Gives what a query reads, in its worker.
    struct Queried {
        std::function<QString()> database;
        std::function<std::vector<SqlTable>(const std::string& sql, const std::function<bool()>& cancelled)> tables;
    };

    /// `queried`: of the page as it is when a query starts.
    PageTracks(std::function<Queried()> queried, QObject* parent) : QObject(parent), queried_(std::move(queried)) {}

    /// The stack of the page's changes, which the tracks share; null: they cannot be undone.
    void setUndoStack(QUndoStack* stack) { undo_ = stack; }
    /// Reads the tracks of the trace, and runs their queries: `changed` follows, or `failed`. Does nothing without
    /// tracks.
    void load(const QString& trace);
    /// Runs the queries again, as after the trace was read again. Does nothing without tracks.
    void refresh();
    /// Adds a track, or replaces the one of this name, and saves.
    void add(const QueryTrack& track);
    /// Removes the track of this name, if there is one, and saves.
    void remove(const QString& name);
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
    friend class TracksCommand;
    /// Makes these the tracks, with a step of undo.
    void change(std::vector<QueryTrack> tracks);
    void keep(std::vector<QueryTrack> tracks);
    void run();

    std::function<Queried()> queried_;
    QPointer<QUndoStack> undo_;
    QString trace_;  // empty: not to be saved
    std::vector<QueryTrack> tracks_;
    std::shared_ptr<const TrackStore> drawn_;  // null: none
    LatestJob job_;
};
}  // namespace pipescope
