#include "gui/window/page_tracks.h"

#include "base/error.h"
#include "gui/document/notes_file.h"

#include <algorithm>
#include <utility>

namespace pipescope {
namespace {
/// The results of the queries that succeeded, and why the first of the others failed.
struct DrawnTracks {
    TrackStore store;
    QString error;
};

DrawnTracks drawTracks(const std::vector<QueryTrack>& tracks, const PageTracks::Queried& queried,
                       const std::function<bool()>& cancelled) {
    DrawnTracks drawn;
    for (const QueryTrack& track : tracks) {
        try {
            const std::string sql = track.sql.toStdString();
            SqlOptions options;
            options.most_rows = kMostQueryRows;
            options.cancelled = cancelled;
            options.tables = queried.tables(sql, cancelled);
            addTracks(drawn.store, trackOf(track, query_sql(queried.database().toStdString(), sql, options)));
        } catch (const std::exception& error) {
            if (drawn.error.isEmpty()) {
                drawn.error =
                    PageTracks::tr("The track '%1' is missing: %2").arg(track.name, QString::fromUtf8(error.what()));
            }
        }
    }
    return drawn;
}
}  // namespace

class TracksCommand : public QUndoCommand {
public:
    TracksCommand(PageTracks& tracks, std::vector<QueryTrack> before, std::vector<QueryTrack> after)
        : QUndoCommand(PageTracks::tr("tracks")),
          tracks_(&tracks),
          before_(std::move(before)),
          after_(std::move(after)) {}

    void undo() override { keep(before_); }
    void redo() override { keep(after_); }

private:
    void keep(const std::vector<QueryTrack>& tracks) {
        if (tracks_) {
            tracks_->keep(tracks);
        }
    }

    QPointer<PageTracks> tracks_;
    std::vector<QueryTrack> before_;
    std::vector<QueryTrack> after_;
};

void PageTracks::load(const QString& trace) {
    trace_.clear();
    try {
        tracks_ = readTracks(trace);
        trace_ = trace;
    } catch (const Error&) {
        tracks_.clear();  // the notes in the same file say why
    }
    refresh();
}

void PageTracks::refresh() {
    if (!tracks_.empty()) {
        run();
    }
}

void PageTracks::add(const QueryTrack& track) {
    std::vector<QueryTrack> tracks = tracks_;
    const auto same = std::ranges::find(tracks, track.name, &QueryTrack::name);
    same == tracks.end() ? tracks.push_back(track) : void(*same = track);
    change(std::move(tracks));
}

void PageTracks::remove(const QString& name) {
    std::vector<QueryTrack> tracks = tracks_;
    std::erase_if(tracks, [&name](const QueryTrack& each) { return each.name == name; });
    change(std::move(tracks));
}

void PageTracks::change(std::vector<QueryTrack> tracks) {
    if (tracks == tracks_) {
        run();  // the trace may have grown since
        return;
    }
    if (undo_) {
        undo_->push(new TracksCommand(*this, tracks_, std::move(tracks)));  // which makes the change
    } else {
        keep(std::move(tracks));
    }
}

void PageTracks::keep(std::vector<QueryTrack> tracks) {
    tracks_ = std::move(tracks);
    run();
    try {
        if (trace_.isEmpty()) {
            throw Error("the tracks of this file cannot be saved; they last as long as the viewer is open");
        }
        writeTracks(trace_, tracks_);
        Q_EMIT saved();
    } catch (const Error& error) {
        Q_EMIT failed(QString::fromUtf8(error.what()));
    }
}

void PageTracks::run() {
    job_.start(
        *this,
        [tracks = tracks_, queried = queried_()](const std::function<bool()>& cancelled) {
            return drawTracks(tracks, queried, cancelled);
        },
        [this](DrawnTracks drawn) {
            drawn_ = drawn.store.empty() ? nullptr : std::make_shared<const TrackStore>(std::move(drawn.store));
            Q_EMIT changed();
            if (!drawn.error.isEmpty()) {
                Q_EMIT failed(drawn.error);
            }
        },
        [this](const QString& error) { Q_EMIT failed(error); });
}

QStringList PageTracks::names() const {
    QStringList names;
    std::ranges::transform(tracks_, std::back_inserter(names), &QueryTrack::name);
    return names;
}

std::shared_ptr<const TraceDocument> PageTracks::added(std::shared_ptr<const TraceDocument> document) const {
    if (!drawn_ || !document) {
        return document;
    }
    auto more = std::make_shared<TraceDocument>(*document);
    auto store = more->tracks ? std::make_shared<TrackStore>(*more->tracks) : std::make_shared<TrackStore>();
    addTracks(*store, *drawn_);
    more->tracks = std::move(store);
    return more;
}
}  // namespace pipescope
