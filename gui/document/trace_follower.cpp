#include "gui/document/trace_follower.h"

#include "gui/style/work_pool.h"

#include "trace/sql_query.h"

#include <QFileInfo>
#include <QTimer>

namespace pipescope {
namespace {
constexpr int kPeriodMilliseconds = 500;
}

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

bool isBeingWritten(const QString& path) {
    if (!QFileInfo::exists(path + QStringLiteral("-wal"))) {
        return false;
    }
    const std::optional<TraceStamp> stamp = stampOf(path);
    return stamp && !stamp->closed;
}

TraceFollower::TraceFollower(QString path, QObject* parent)
    : QObject(parent), path_(std::move(path)), timer_(new QTimer(this)) {
    timer_->setSingleShot(true);
    timer_->setInterval(kPeriodMilliseconds);
    connect(timer_, &QTimer::timeout, this, &TraceFollower::look);
    timer_->start();
}

void TraceFollower::resume() {
    if (last_.closed) {
        Q_EMIT finished();
    } else {
        timer_->start();
    }
}

void TraceFollower::look() {
    runInPool(
        *this, [path = path_] { return stampOf(path); },
        [this](const std::optional<TraceStamp>& stamp) { take(stamp); });
}

void TraceFollower::take(const std::optional<TraceStamp>& stamp) {
    if (!stamp || *stamp == last_) {
        timer_->start();
        return;
    }
    last_ = *stamp;
    Q_EMIT grown();
}
}  // namespace pipescope
