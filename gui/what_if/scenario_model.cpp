#include "gui/what_if/scenario_model.h"

#include "gui/document/document_builder.h"
#include "gui/style/work_pool.h"

#include <QUndoStack>

#include <algorithm>

namespace pipescope {
namespace {
constexpr std::chrono::milliseconds kFrame{12};  // of the 16 ms of a frame; the rest is for drawing
constexpr double kFirstGuess = 3'000;            // ns per task
constexpr int kSearchDelay = 150;                // ms without a change before the search for cuts starts
constexpr int kBandDelay = 250;                  // ms without a change before the variation of steps is computed

/// True if a simulation searches an order first.
bool isAutomatic(const Scenario& scenario) {
    return scenario.options.schedule == Schedule::automatic;
}

bool differInCutsOnly(const Scenario& one, Scenario other) {
    const bool asMany = one.options.balance.num_partitions() == other.options.balance.num_partitions();
    other.options.balance = one.options.balance;
    return asMany && one == other;
}
}  // namespace

/// A change from one scenario to another, and back.
class ScenarioCommand : public QUndoCommand {
public:
    ScenarioCommand(ScenarioModel& model, Scenario next, const QString& what, int control)
        : QUndoCommand(what),
          model_(model),
          before_(model.scenario()),
          after_(std::move(next)),
          control_(control),
          gesture_(model.gesture_) {}

    void undo() override {
        model_.startGesture();
        model_.apply(before_);
    }
    void redo() override { model_.apply(after_); }
    int id() const override { return control_; }
    bool mergeWith(const QUndoCommand* other) override {
        const auto* next = static_cast<const ScenarioCommand*>(other);  // has the same id
        if (next->gesture_ != gesture_) {
            return false;
        }
        after_ = next->after_;
        setObsolete(after_ == before_);
        return true;
    }

private:
    ScenarioModel& model_;
    Scenario before_;
    Scenario after_;
    int control_;
    int gesture_;
};

ScenarioModel::ScenarioModel(QObject* parent)
    : QObject(parent),
      undo_(new QUndoStack(this)),
      searchTimer_(new RestedWork(kSearchDelay, *this, [this] { searchOptimal(); })),
      bandTimer_(new RestedWork(kBandDelay, *this, [this] { findBand(); })),
      patience_(kFrame),
      nsPerTask_(kFirstGuess) {
    qRegisterMetaType<std::shared_ptr<const SimulatedScenario>>();
}

ScenarioModel::~ScenarioModel() = default;

void ScenarioModel::setProfile(std::optional<CheckedProfile> profile, std::optional<Scenario> recorded,
                               bool isRecording, std::optional<StepBand> band, bool bandFollows,
                               std::optional<StepOnCluster> onCluster) {
    bandFollows_ = bandFollows;
    hasRecording_ = isRecording && recorded.has_value();
    profile_ = std::move(profile);
    timed_ = profile_;
    timedFor_.clear();
    undo_->clear();
    startGesture();
    result_.reset();
    recordedResult_.reset();
    optimal_.reset();
    band_.reset();
    recordedBand_ = std::move(band);
    bandTimer_->stop();
    shownGeneration_ = ++generation_;
    recorded_ = profile_ ? recorded.value_or(defaultScenario(*profile_)) : Scenario{};
    scenario_ = recorded_;
    layout_.reset();
    if (onCluster) {
        layout_ = RecordedLayout{*std::move(onCluster), recorded_.options};
    }
    Q_EMIT profileChanged();
    if (profile_) {
        apply(recorded_);
    }
}

void ScenarioModel::setRecordedBand(const StepBand& band) {
    if (!isEmpty() && !recordedBand_) {
        bandFollows_ = false;
        takeBands({scenario_ == recorded_ ? std::optional(band) : std::nullopt, band});
    }
}

void ScenarioModel::setModelError(const std::optional<ModelError>& error) {
    if (error != modelError_) {
        modelError_ = error;
        Q_EMIT modelErrorChanged();
    }
}

void ScenarioModel::change(const Scenario& scenario, const QString& what, int control) {
    if (isEmpty() || scenario == scenario_) {
        return;
    }
    undo_->push(new ScenarioCommand(*this, scenario, what, control));
}

void ScenarioModel::backToRecorded() {
    startGesture();
    change(recorded_, tr("back to as recorded"));
}

void ScenarioModel::apply(const Scenario& scenario) {
    // The best cuts do not depend on the current cuts: they stay visible while one is dragged.
    const bool sameBest = optimal_ && differInCutsOnly(scenario_, scenario);
    scenario_ = scenario;
    ++generation_;
    band_ = scenario_ == recorded_ ? recordedBand_ : std::nullopt;
    if (!sameBest) {
        optimal_.reset();
        searchTimer_->start();
    }
    if (band_ || (bandFollows_ && scenario_ == recorded_)) {
        bandTimer_->stop();
    } else {
        bandTimer_->start();
    }
    Q_EMIT scenarioChanged();
    Q_EMIT optimalBalanceChanged();
    Q_EMIT bandChanged();
    if (!prepareDevice()) {
        return;
    }
    if (!isAutomatic(scenario_) && expectedCost() <= static_cast<double>(patience_.count())) {
        simulateNow();
    } else {
        simulateInWorker();
    }
}

bool ScenarioModel::prepareDevice() {
    if (timedFor_ == scenario_.deviceType) {
        return true;
    }
    try {
        timed_ = profileOn(profile_, scenario_.deviceType);
        timedFor_ = scenario_.deviceType;
        return true;
    } catch (const Error& error) {
        show(generation_,
             std::make_shared<const SimulatedScenario>(refusedScenario(scenario_, QString::fromUtf8(error.what()))));
        return false;
    }
}

double ScenarioModel::expectedCost() const {
    const PipelineOptions& options = scenario_.options;
    const double microBatches = static_cast<double>(std::clamp<std::int64_t>(options.chunks, 1, 1 << 20));
    const double tasks = microBatches * static_cast<double>(options.balance.num_partitions()) * 5;
    return tasks * nsPerTask_;
}

ScenarioModel::Timed ScenarioModel::timed(const CheckedProfile& profile, const Scenario& scenario,
                                          const std::optional<RecordedLayout>& layout) {
    const auto start = std::chrono::steady_clock::now();
    Timed timed{std::make_shared<const SimulatedScenario>(simulateScenario(profile, scenario, layout)), 0};
    if (timed.result->runs() && !isAutomatic(scenario)) {  // a search says nothing of other simulations
        const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
        const std::size_t tasks = std::max<std::size_t>(1000, timed.result->timeline->numSlices());
        timed.nsPerTask = took.count() / static_cast<double>(tasks);
    }
    return timed;
}

void ScenarioModel::learn(double nsPerTask) {
    if (nsPerTask > 0) {
        nsPerTask_ = (nsPerTask_ + nsPerTask) / 2;  // averaged, to damp outliers
    }
}

void ScenarioModel::simulateNow() {
    const Timed done = timed(*timed_, scenario_, layout_);
    learn(done.nsPerTask);
    show(generation_, done.result);
}

void ScenarioModel::simulateInWorker() {
    if (working_) {
        return;  // the present scenario is simulated when the worker returns
    }
    working_ = true;
    const auto work = [profile = timed_, scenario = scenario_, layout = layout_] {
        return timed(*profile, scenario, layout);
    };
    const auto take = [this, generation = generation_](const Timed& done) {
        working_ = false;
        learn(done.nsPerTask);
        // During a drag, an outdated result is better than none, as long as results do not go backwards.
        if (generation > shownGeneration_) {
            show(generation, done.result);
        }
        if (isBehind() && !isEmpty()) {
            simulateInWorker();
        }
    };
    runInPool(*this, work, take, [take, scenario = scenario_](const QString& error) {
        take({std::make_shared<const SimulatedScenario>(refusedScenario(scenario, error)), 0});
    });
}

void ScenarioModel::show(int generation, std::shared_ptr<const SimulatedScenario> result) {
    shownGeneration_ = generation;
    result_ = std::move(result);
    if (!recordedResult_ && result_->scenario == recorded_) {
        recordedResult_ = result_;
    }
    addNoise();
    Q_EMIT simulated(result_);
}

void ScenarioModel::applyBalance(BalanceAlgorithm algorithm) {
    if (isEmpty()) {
        return;
    }
    const QString what = tr("%1 balance").arg(QString::fromStdString(to_string(algorithm)));
    const auto work = [profile = timed_, scenario = scenario_, algorithm] {
        return foundBalance(*profile, scenario, algorithm);
    };
    const int generation = generation_;
    runInPool(
        *this, work,
        [this, what, generation](const Balance& balance) {
            if (generation == generation_) {
                Scenario next = scenario_;
                next.options.balance = balance;
                startGesture();
                change(next, what);
            }
        },
        [this, generation](const QString& error) {
            if (generation == generation_) {
                Q_EMIT failed(error);
            }
        });
}

void ScenarioModel::searchOptimal() {
    if (isEmpty()) {
        return;
    }
    if (searching_) {
        searchTimer_->start();
        return;
    }
    searching_ = true;
    const auto work = [profile = timed_, scenario = scenario_] {
        return foundBalance(*profile, scenario, BalanceAlgorithm::optimal);
    };
    runInPool(
        *this, work,
        [this, generation = generation_](const Balance& balance) {
            searching_ = false;
            if (generation == generation_) {
                optimal_ = balance;
                Q_EMIT optimalBalanceChanged();
            }
        },
        [this](const QString&) { searching_ = false; });  // no ghosts; the scenario's messages give the reason
}

void ScenarioModel::findBand() {
    if (isEmpty()) {
        return;
    }
    if (banding_ || isBehind()) {
        bandTimer_->start();
        return;
    }
    banding_ = true;
    const bool both = !recordedBand_ && !bandFollows_ && scenario_ != recorded_;
    const Scenario present = asSimulated(*result_);
    const Scenario recordedOne = recordedResult_ ? asSimulated(*recordedResult_) : recorded_;
    const auto work = [own = profile_, profile = timed_, scenario = present, recorded = recordedOne, both]() -> Bands {
        return {stepBand(*profile, scenario), both ? stepBand(*own, recorded) : std::nullopt};
    };
    const auto take = [this, profile = profile_, generation = generation_](Bands bands) {
        banding_ = false;
        if (profile != profile_) {
            return;
        }
        if (generation != generation_) {
            bands.present.reset();
        } else if (!bands.present && result_ && !isBehind() && result_->noisePending) {
            auto without = std::make_shared<SimulatedScenario>(*result_);  // its noise is that of no task
            without->noisePending = false;
            result_ = std::move(without);
            Q_EMIT simulated(result_);
        }
        takeBands(bands);
    };
    runInPool(*this, work, take, [take](const QString&) { take({}); });  // the figures stay those without noise
}

void ScenarioModel::takeBands(const Bands& bands) {
    if (bands.recorded) {
        recordedBand_ = bands.recorded;
    }
    if (bands.present) {
        band_ = bands.present;
        recordedBand_ = scenario_ == recorded_ ? bands.present : recordedBand_;
    }
    addNoise();
    Q_EMIT bandChanged();
    if (bands.present && result_ && !isBehind()) {
        Q_EMIT simulated(result_);
    }
}

void ScenarioModel::addNoise() {
    if (recordedBand_ && recordedResult_ && recordedResult_->noisePending) {
        recordedResult_ = std::make_shared<const SimulatedScenario>(withNoise(*recordedResult_, *recordedBand_));
    }
    if (band_ && result_ && !isBehind() && result_->noisePending) {
        result_ = std::make_shared<const SimulatedScenario>(withNoise(*result_, *band_));
    }
}

std::shared_ptr<const SimulatedScenario> ScenarioModel::resultWithNoise() {
    const bool isPending = result_ && !isBehind() && result_->noisePending;
    if (isPending && !noiseTakesLong(*timed_, result_->simulation.options, kMostForwardsAtOnce)) {
        if (const std::optional<StepBand> band = stepBand(*timed_, asSimulated(*result_))) {
            takeBands({band, std::nullopt});
        }
    }
    return result_;
}
}  // namespace pipescope
