#pragma once

#include <QElapsedTimer>
#include <QObject>
#include <QStringList>

#include <cstdint>
#include <optional>
#include <vector>

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
/// True if any of the traces was not closed and its write-ahead log exists: a recorder has it open, or was killed.
bool isBeingWritten(const QStringList& paths);

/// Watches traces that are being written: one, or those of one run's processes. Checks in a worker, at most twice a
/// second, and not while the caller still processes the previous news. If that takes long, rests four times as long.
/// Threading: the GUI thread.
class TraceFollower : public QObject {
    Q_OBJECT

public:
    explicit TraceFollower(QStringList paths, QObject* parent = nullptr);

    /// Call when the last news is processed, to continue watching.
    void resume();
    /// True if all recorders closed their traces.
    bool ended() const;

Q_SIGNALS:
    /// There is more to read. No further signal until resume().
    void grown();
    /// The recorders closed all traces. Emitted after resume() has answered the last grown().
    void finished();

private:
    void look();
    void take(const std::vector<std::optional<TraceStamp>>& stamps);

    QStringList paths_;
    std::vector<TraceStamp> last_;  // of each path
    QTimer* timer_;
    QElapsedTimer sinceNews_;  // started once there were any
};
}  // namespace pipescope
