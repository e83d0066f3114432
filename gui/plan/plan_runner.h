#pragma once

#include "gui/style/work_pool.h"
#include "simulator/plan/planner.h"

#include <QObject>
#include <QString>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>

class QTimer;

namespace pipescope {
/// Plans in a worker, with progress and cancel. One plan at a time: a new start cancels the previous one and drops its
/// result. Threading: the GUI thread.
class PlanRunner : public QObject {
    Q_OBJECT

public:
    /// Like plan(): reports `progress` regularly and stops soon after that returns false.
    using Planner = std::function<Plan(const CheckedProfile&, const PlanRequest&)>;

    explicit PlanRunner(QObject* parent = nullptr, Planner planner = plan);
    /// Cancels. The worker stops soon after.
    ~PlanRunner() override;

    void start(const CheckedProfile& profile, const PlanRequest& request);
    /// Stops early; `planned` follows with the result so far.
    void cancel();
    /// Cancels without a result.
    void drop();
    bool isRunning() const { return job_.isRunning(); }

Q_SIGNALS:
    /// 0 to 1.
    void progressed(double done);
    void planned(std::shared_ptr<const pipescope::Plan> plan);
    void failed(const QString& text);

private:
    LatestJob job_;
    std::shared_ptr<std::atomic<double>> done_;  // shared with the worker; null before the first plan
    QTimer* timer_;                              // runs while a plan does
    Planner planner_;
};
}  // namespace pipescope
