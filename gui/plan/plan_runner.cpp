#include "gui/plan/plan_runner.h"

#include "gui/style/work_pool.h"

#include <QTimer>

#include <atomic>

namespace pipescope {
namespace {
constexpr int kProgressPeriod = 50;  // ms

struct Outcome {
    std::shared_ptr<const Plan> plan;  // null: see error
    QString error;
};
}  // namespace

struct PlanRunner::State {
    std::atomic<double> done = 0;
    std::atomic<bool> stop = false;
};

PlanRunner::PlanRunner(QObject* parent, Planner planner)
    : QObject(parent), timer_(new QTimer(this)), planner_(std::move(planner)) {
    timer_->setInterval(kProgressPeriod);
    connect(timer_, &QTimer::timeout, this, [this] {
        if (state_) {
            Q_EMIT progressed(state_->done);
        }
    });
}

PlanRunner::~PlanRunner() {
    drop();
}

void PlanRunner::start(std::shared_ptr<const Profile> profile, PlanRequest request) {
    drop();
    const auto state = std::make_shared<State>();
    state_ = state;
    timer_->start();
    request.progress = [state](double done) {
        state->done = done;
        return !state->stop;
    };
    const auto work = [profile = std::move(profile), request = std::move(request), planner = planner_]() -> Outcome {
        try {
            return {std::make_shared<const Plan>(planner(*profile, request)), {}};
        } catch (const std::exception& error) {
            return {nullptr, QString::fromUtf8(error.what())};
        }
    };
    runInPool(*this, work, [this, state](const Outcome& outcome) {
        if (state != state_) {
            return;  // another plan was started meanwhile
        }
        state_.reset();
        timer_->stop();
        if (outcome.plan) {
            Q_EMIT planned(outcome.plan);
        } else {
            Q_EMIT failed(outcome.error);
        }
    });
}

void PlanRunner::cancel() {
    if (state_) {
        state_->stop = true;
    }
}

void PlanRunner::drop() {
    cancel();
    state_.reset();
    timer_->stop();
}
}  // namespace pipescope
