#pragma once

#include <QObject>
#include <QString>

#include <cstdint>
#include <optional>

class QTimer;

namespace pipescope {
/// What tells whether a trace has grown: cheap to ask, however large the file is.
struct TraceStamp {
    std::int64_t lastTask = 0;
    std::int64_t lastStep = 0;
    std::int64_t lastSample = 0;
    bool closed = false;  ///< the recording ended

    friend bool operator==(const TraceStamp&, const TraceStamp&) = default;
};
/// Nothing if the file is no trace of ours, or cannot be read just now.
std::optional<TraceStamp> stampOf(const QString& path);
/// The trace was not closed and its write-ahead log is there: a recorder has it open, or was killed.
bool isBeingWritten(const QString& path);

/// Watches a trace that is being written. Asks in a worker, at most twice a second, and not while the caller is still
/// busy with what came before.
/// Threading: the GUI thread.
class TraceFollower : public QObject {
    Q_OBJECT

public:
    explicit TraceFollower(QString path, QObject* parent = nullptr);

    /// The caller has dealt with the last news: look again.
    void resume();
    bool ended() const { return last_.closed; }

Q_SIGNALS:
    /// There is more to read. Nothing more is told until resume().
    void grown();
    /// The recorder closed the trace; comes after the last grown() was answered by resume().
    void finished();

private:
    void look();
    void take(const std::optional<TraceStamp>& stamp);

    QString path_;
    TraceStamp last_;
    QTimer* timer_;
};
}  // namespace pipescope
