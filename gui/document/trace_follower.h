#pragma once

#include <QObject>
#include <QString>

#include <cstdint>
#include <optional>

class QTimer;

namespace pipescope {
/// Shows whether a trace has grown. Cheap to read, however large the file is.
struct TraceStamp {
    std::int64_t lastTask = 0;
    std::int64_t lastStep = 0;
    std::int64_t lastSample = 0;
    bool closed = false;  ///< the recording ended

    friend bool operator==(const TraceStamp&, const TraceStamp&) = default;
};
/// Empty if the file is not a PipeScope trace, or cannot be read at the moment.
std::optional<TraceStamp> stampOf(const QString& path);
/// True if the trace was not closed and its write-ahead log exists: a recorder has it open, or was killed.
bool isBeingWritten(const QString& path);

/// Watches a trace that is being written. Checks in a worker, at most twice a second, and not while the caller still
/// processes the previous news.
/// Threading: the GUI thread.
class TraceFollower : public QObject {
    Q_OBJECT

public:
    explicit TraceFollower(QString path, QObject* parent = nullptr);

    /// Call when the last news is processed, to continue watching.
    void resume();
    bool ended() const { return last_.closed; }

Q_SIGNALS:
    /// There is more to read. No further signal until resume().
    void grown();
    /// The recorder closed the trace. Emitted after resume() has answered the last grown().
    void finished();

private:
    void look();
    void take(const std::optional<TraceStamp>& stamp);

    QString path_;
    TraceStamp last_;
    QTimer* timer_;
};
}  // namespace pipescope
