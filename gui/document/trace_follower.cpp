#include "gui/document/trace_follower.h"

#include "gui/style/work_pool.h"

#include "trace/store/sql_query.h"

#include <QFileInfo>
#include <QTimer>

#include <algorithm>
#include <iterator>

namespace pipescope {
namespace {
constexpr int kPeriodMilliseconds = 500;
constexpr qint64 kRestFactor = 4;  // so that reading takes at most a fifth of a core
constexpr qint64 kLongestRest = 30'000;

/// Empty if the file is not a PipeScope trace, or cannot be read at the moment.
std::optional<TraceStamp> stampOf(const QString& path) {
    try {
        const SqlResult result = query_sql(path.toStdString(),
                                           "SELECT (SELECT max(rowid) FROM PIPESCOPE_TASK), "
                                           "(SELECT max(rowid) FROM PIPESCOPE_STEP), "
                                           "(SELECT max(rowid) FROM PIPESCOPE_MEMORY), "
                                           "(SELECT count(*) FROM PIPESCOPE_RUN WHERE key = 'closed')");
        const auto number = [&](std::size_t column) {
            const auto* value = std::get_if<std::int64_t>(&result.rows.at(0)[column]);
            return value != nullptr ? *value : 0;
        };
        return TraceStamp{number(0), number(1), number(2), number(3) > 0};
    } catch (const std::exception&) {
        return std::nullopt;
    }
}
}  // namespace

bool isBeingWritten(const QStringList& paths) {
    return std::any_of(paths.begin(), paths.end(), [](const QString& path) {
        if (!QFileInfo::exists(path + QStringLiteral("-wal"))) {
            return false;
        }
        const std::optional<TraceStamp> stamp = stampOf(path);
        return stamp && !stamp->closed;
    });
}

TraceFollower::TraceFollower(QStringList paths, QObject* parent)
    : QObject(parent),
      paths_(std::move(paths)),
      last_(static_cast<std::size_t>(paths_.size())),
      timer_(new QTimer(this)) {
    timer_->setSingleShot(true);
    timer_->setInterval(kPeriodMilliseconds);
    connect(timer_, &QTimer::timeout, this, &TraceFollower::look);
    timer_->start();
}

bool TraceFollower::ended() const {
    return std::all_of(last_.begin(), last_.end(), [](const TraceStamp& stamp) { return stamp.closed; });
}

void TraceFollower::resume() {
    if (ended()) {
        Q_EMIT finished();
        return;
    }
    const qint64 took = sinceNews_.isValid() ? sinceNews_.elapsed() : 0;
    sinceNews_.invalidate();
    timer_->setInterval(static_cast<int>(std::clamp<qint64>(kRestFactor * took, kPeriodMilliseconds, kLongestRest)));
    timer_->start();
}

void TraceFollower::look() {
    runInPool(
        *this,
        [paths = paths_] {
            std::vector<std::optional<TraceStamp>> stamps;
            std::transform(paths.begin(), paths.end(), std::back_inserter(stamps), stampOf);
            return stamps;
        },
        [this](const std::vector<std::optional<TraceStamp>>& stamps) { take(stamps); },
        [this](const QString&) { timer_->start(); });  // asks again later
}

void TraceFollower::take(const std::vector<std::optional<TraceStamp>>& stamps) {
    bool news = false;
    for (std::size_t k = 0; k < stamps.size(); ++k) {
        if (stamps[k] && *stamps[k] != last_[k]) {
            last_[k] = *stamps[k];
            news = true;
        }
    }
    if (!news) {
        timer_->start();
        return;
    }
    sinceNews_.start();
    Q_EMIT grown();
}
}  // namespace pipescope
