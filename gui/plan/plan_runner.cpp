#include "gui/plan/plan_runner.h"

#include <QTimer>

namespace pipescope {
namespace {
constexpr int kProgressPeriod = 50;  // ms
}  // namespace

PlanRunner::PlanRunner(QObject* parent, Planner planner)
    : QObject(parent), timer_(new QTimer(this)), planner_(std::move(planner)) {
    timer_->setInterval(kProgressPeriod);
    connect(timer_, &QTimer::timeout, this, [this] { Q_EMIT progressed(*done_); });
}

PlanRunner::~PlanRunner() = default;

void PlanRunner::start(const CheckedProfile& profile, const PlanRequest& request) {
    done_ = std::make_shared<std::atomic<double>>(0);
    timer_->start();
    const auto work = [profile, asked = request, planner = planner_,
                       done = done_](const std::function<bool()>& cancelled) {
        PlanRequest watched = asked;
        watched.progress = [&](double share) {
            *done = share;
            return !cancelled();
        };
        return std::make_shared<const Plan>(planner(profile, watched));
    };
    job_.start(
        *this, work,
        [this](const std::shared_ptr<const Plan>& plan) {
            timer_->stop();
            Q_EMIT planned(plan);
        },
        [this](const QString& error) {
            timer_->stop();
            Q_EMIT failed(error);
        });
}

void PlanRunner::cancel() {
    job_.cancel();
}

void PlanRunner::drop() {
    job_.drop();
    timer_->stop();
}
}  // namespace pipescope
