#pragma once

#include "gui/document/scenario.h"

#include <QObject>
#include <QString>

#include <chrono>
#include <memory>
#include <optional>

class QTimer;
class QUndoStack;

namespace pipescope {
/// The scenario that is being played with, what it gives, and how it came about. Panel, balance editor and plan change
/// it, and window and panel show it; none of them knows another.
///
/// Every change is one step of undo; changes of one control during one gesture (a drag, a key held down) are one step
/// together. A change is simulated at once where that takes less than a frame, so that timelines follow a slider, and
/// else in a worker; of its results those are dropped that are older than what is shown.
/// Threading: the GUI thread.
class ScenarioModel : public QObject {
    Q_OBJECT

public:
    explicit ScenarioModel(QObject* parent = nullptr);
    ~ScenarioModel() override;

    /// Starts afresh with a profile and what was recorded, or the default where nothing was. Null: nothing to play
    /// with.
    void setProfile(std::shared_ptr<const Profile> profile, std::optional<Scenario> recorded, bool isRecording = true);
    /// The profiled device's; null where there is nothing to play with.
    const std::shared_ptr<const Profile>& profile() const { return profile_; }
    bool isEmpty() const { return profile_ == nullptr; }

    const Scenario& scenario() const { return scenario_; }
    /// What to go back to.
    const Scenario& recorded() const { return recorded_; }
    bool isAsRecorded() const { return scenario_ == recorded_; }
    /// False: nothing was recorded, what to go back to is the default for a bare profile.
    bool hasRecording() const { return hasRecording_; }
    /// Of the recorded scenario, to compare with.
    const std::shared_ptr<const SimulatedScenario>& recordedResult() const { return recordedResult_; }
    /// Of the latest scenario that was simulated; null before the first.
    const std::shared_ptr<const SimulatedScenario>& result() const { return result_; }
    /// The result is of an earlier scenario, and that of the present one is on its way.
    bool isBehind() const { return generation_ != shownGeneration_; }

    /// Says what changed ("micro-batches"), for the undo menu. Changes with the same `control` (not negative) within
    /// one gesture become one.
    void change(const Scenario& scenario, const QString& what, int control = -1);
    /// The next change is a step of undo of its own.
    void startGesture();
    void backToRecorded();
    QUndoStack& undoStack() const { return *undo_; }

    /// Looks for a balance in a worker and changes to it. Overtaken by any other change of the scenario meanwhile.
    void applyBalance(BalanceAlgorithm algorithm);
    /// Where the steps of the present scenario lie; nothing while it is worked out, or where there is none.
    const std::optional<StepBand>& band() const { return band_; }
    /// The best balance of the present scenario's partitions; nothing while it is looked for.
    const std::optional<Balance>& optimalBalance() const { return optimal_; }

    /// What one simulation may take to be done in the GUI thread; 0: always in the worker. For tests.
    void setPatience(std::chrono::nanoseconds patience) { patience_ = patience; }

Q_SIGNALS:
    /// Another profile, and with it everything.
    void profileChanged();
    void scenarioChanged();
    void simulated(std::shared_ptr<const pipescope::SimulatedScenario> result);
    void optimalBalanceChanged();
    void bandChanged();
    /// Something that was asked for cannot be had.
    void failed(const QString& text);

private:
    friend class ScenarioCommand;
    void apply(const Scenario& scenario);
    struct Timed {
        std::shared_ptr<const SimulatedScenario> result;
        double nsPerTask = 0;  // 0: nothing ran
    };
    static Timed timed(const Profile& profile, const Scenario& scenario);
    void learn(double nsPerTask);
    void simulateNow();
    void simulateInWorker();
    void show(int generation, std::shared_ptr<const SimulatedScenario> result);
    bool prepareDevice();
    double expectedCost() const;
    void searchOptimal();
    /// In a worker, once the scenario rests.
    void findBand();

    std::shared_ptr<const Profile> profile_;
    std::shared_ptr<const Profile> timed_;  // of the scenario's device
    std::string timedFor_;
    Scenario recorded_;
    Scenario scenario_;
    std::shared_ptr<const SimulatedScenario> recordedResult_;
    std::shared_ptr<const SimulatedScenario> result_;
    std::optional<Balance> optimal_;
    std::optional<StepBand> band_;
    QUndoStack* undo_;
    QTimer* searchTimer_;
    QTimer* bandTimer_;
    std::chrono::nanoseconds patience_;
    double nsPerTask_;  // of the latest simulation
    bool hasRecording_ = false;
    int gesture_ = 0;
    int generation_ = 0;       // counts scenarios
    int shownGeneration_ = 0;  // whose result is shown
    bool working_ = false;
    bool searching_ = false;
    bool banding_ = false;
};
}  // namespace pipescope
