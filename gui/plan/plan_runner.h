#pragma once

#include "simulator/planner.h"

#include <QObject>
#include <QString>

#include <functional>
#include <memory>

class QTimer;

namespace pipescope {
/// Plans in a worker, with progress and cancel. One plan at a time: another start cancels the one before, whose answer
/// is dropped. Threading: the GUI thread.
class PlanRunner : public QObject {
    Q_OBJECT

public:
    /// As plan(): calls the request's `progress` now and then, and ends soon once that returns false.
    using Planner = std::function<Plan(const Profile&, const PlanRequest&)>;

    explicit PlanRunner(QObject* parent = nullptr, Planner planner = plan);
    /// Cancels; the worker ends by itself soon after.
    ~PlanRunner() override;

    void start(std::shared_ptr<const Profile> profile, PlanRequest request);
    /// What was found up to now follows as `planned`.
    void cancel();
    /// Cancels, and nothing follows.
    void drop();
    bool isRunning() const { return state_ != nullptr; }

Q_SIGNALS:
    /// 0 to 1.
    void progressed(double done);
    void planned(std::shared_ptr<const pipescope::Plan> plan);
    void failed(const QString& text);

private:
    struct State;
    std::shared_ptr<State> state_;  // shared with the worker; null while none runs
    QTimer* timer_;
    Planner planner_;
};
}  // namespace pipescope
