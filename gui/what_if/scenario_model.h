#pragma once

#include "gui/document/scenario.h"
#include "simulator/model_error.h"

#include <QObject>
#include <QString>

#include <chrono>
#include <memory>
#include <optional>

class QUndoStack;

namespace pipescope {
class RestedWork;
/// The current what-if scenario, its result, and its history. Panel, balance editor and plan change it; window and
/// panel display it. None of them knows the others.
///
/// Every change is an undo step; changes of one control in one gesture (a drag, a held key) form a single step. A
/// change is simulated immediately if that takes less than a frame, so that timelines follow a slider. Otherwise, and
/// always with schedule auto, it is simulated in a worker, and results older than the displayed one are dropped.
/// Threading: the GUI thread.
class ScenarioModel : public QObject {
    Q_OBJECT

public:
    explicit ScenarioModel(QObject* parent = nullptr);
    ~ScenarioModel() override;

    /// Restarts with a profile and the recorded scenario, or the default if nothing was recorded. Empty: no scenario.
    /// `band`: the recorded scenario's noise, if it is known already. `bandFollows`: it is not computed here, since
    /// that takes long; setRecordedBand() may bring it.
    /// `onCluster`: the step whose pipeline was recorded. Scenarios are then whole steps, which keep the rest of it.
    void setProfile(std::optional<CheckedProfile> profile, std::optional<Scenario> recorded, bool isRecording = true,
                    std::optional<StepBand> band = std::nullopt, bool bandFollows = false,
                    std::optional<StepOnCluster> onCluster = std::nullopt);
    /// No effect if it is known.
    void setRecordedBand(const StepBand& band);
    /// Sets the error of the recorded scenario's simulation on its run; empty if it is not known.
    void setModelError(const std::optional<ModelError>& error);
    const std::optional<ModelError>& modelError() const { return modelError_; }
    /// The profile of the profiled device; empty if there is no scenario.
    const std::optional<CheckedProfile>& profile() const { return profile_; }
    bool isEmpty() const { return !profile_; }

    /// Empty unless the recorded scenario is the pipeline of a layout on a cluster.
    const std::optional<RecordedLayout>& layout() const { return layout_; }

    const Scenario& scenario() const { return scenario_; }
    const Scenario& recorded() const { return recorded_; }
    bool isAsRecorded() const { return scenario_ == recorded_; }
    /// False if nothing was recorded: recorded() is then the default for a bare profile.
    bool hasRecording() const { return hasRecording_; }
    const std::shared_ptr<const SimulatedScenario>& recordedResult() const { return recordedResult_; }
    /// Result of the latest simulated scenario; null before the first.
    const std::shared_ptr<const SimulatedScenario>& result() const { return result_; }
    /// True if the result belongs to an earlier scenario, while the present one is being simulated.
    bool isBehind() const { return generation_ != shownGeneration_; }

    /// Changes the scenario. `what` names the change in the undo menu ("micro-batches"). Changes with the same
    /// non-negative `control` in one gesture become one.
    void change(const Scenario& scenario, const QString& what, int control = -1);
    /// Makes the next change a separate undo step.
    void startGesture() { ++gesture_; }
    void backToRecorded();
    QUndoStack& undoStack() const { return *undo_; }

    /// Searches a balance in a worker and applies it. Any change of the scenario meanwhile cancels this.
    void applyBalance(BalanceAlgorithm algorithm);
    /// Range of step times of the present scenario, of its pipeline alone; empty while it is computed, or if there is
    /// none.
    const std::optional<StepBand>& band() const { return band_; }
    /// The result with its noise, which is computed now if it was not yet and does not take long; otherwise the result.
    std::shared_ptr<const SimulatedScenario> resultWithNoise();
    /// The best balance for the present number of partitions; empty during the search.
    const std::optional<Balance>& optimalBalance() const { return optimal_; }

    /// Maximum duration of a simulation in the GUI thread; 0: always uses the worker. For tests.
    void setPatience(std::chrono::nanoseconds patience) { patience_ = patience; }

Q_SIGNALS:
    /// Another profile, so everything changed.
    void profileChanged();
    void scenarioChanged();
    /// With noise in the profile, emitted twice: at once without noise, and with noise once the scenario rests.
    void simulated(std::shared_ptr<const pipescope::SimulatedScenario> result);
    void optimalBalanceChanged();
    void bandChanged();
    void modelErrorChanged();
    /// A request cannot be fulfilled.
    void failed(const QString& text);

private:
    friend class ScenarioCommand;
    void apply(const Scenario& scenario);
    struct Timed {
        std::shared_ptr<const SimulatedScenario> result;
        double nsPerTask = 0;  // 0: nothing was simulated
    };
    static Timed timed(const CheckedProfile& profile, const Scenario& scenario,
                       const std::optional<RecordedLayout>& layout);
    void learn(double nsPerTask);
    void simulateNow();
    void simulateInWorker();
    void show(int generation, std::shared_ptr<const SimulatedScenario> result);
    bool prepareDevice();
    double expectedCost() const;
    void searchOptimal();
    /// Runs in a worker, once the scenario has stopped changing.
    void findBand();
    struct Bands {
        std::optional<StepBand> present;
        std::optional<StepBand> recorded;
    };
    void takeBands(const Bands& bands);
    void addNoise();

    std::optional<CheckedProfile> profile_;
    std::optional<CheckedProfile> timed_;  // profile with the times of the scenario's device
    std::string timedFor_;
    std::optional<RecordedLayout> layout_;
    Scenario recorded_;
    Scenario scenario_;
    std::shared_ptr<const SimulatedScenario> recordedResult_;
    std::shared_ptr<const SimulatedScenario> result_;
    std::optional<Balance> optimal_;
    std::optional<StepBand> band_;
    std::optional<StepBand> recordedBand_;
    std::optional<ModelError> modelError_;
    QUndoStack* undo_;
    RestedWork* searchTimer_;
    RestedWork* bandTimer_;
    std::chrono::nanoseconds patience_;
    double nsPerTask_;  // running average over simulations
    bool hasRecording_ = false;
    bool bandFollows_ = false;  // of the recorded scenario
    int gesture_ = 0;
    int generation_ = 0;       // number of the current scenario
    int shownGeneration_ = 0;  // number of the scenario whose result is displayed
    bool working_ = false;
    bool searching_ = false;
    bool banding_ = false;
};
}  // namespace pipescope
