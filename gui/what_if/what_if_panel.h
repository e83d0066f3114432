#pragma once

#include "gui/document/scenario.h"

#include <QWidget>

#include <functional>

class QComboBox;
class QFormLayout;
class QLabel;
class QPushButton;

namespace pipescope {
class LaneSpeedEditor;
class PeakBars;
class PlacementEditor;
class ScenarioFigures;
class ScenarioModel;
class ValueSlider;

/// Controls for a what-if scenario: all its options, its results, presets, and messages about it. Shows and changes a
/// ScenarioModel and depends on nothing else. Without a profile, it explains how to get one.
class WhatIfPanel : public QWidget {
    Q_OBJECT

public:
    explicit WhatIfPanel(ScenarioModel& model, QWidget* parent = nullptr);
    ~WhatIfPanel() override;

    /// Reason for a missing profile, worded to follow "this file", such as "holds no profile". Empty: a text for any
    /// file.
    void setReason(const QString& why);
    /// The line at the top: what is shown, what changes are against, and what a layout on a cluster keeps.
    QString title() const;
    /// The text below the sliders: errors, warnings, notes.
    QString messages() const;
    ValueSlider& partitions() const { return *partitions_; }
    ValueSlider& microBatches() const { return *microBatches_; }
    ValueSlider& batch() const { return *batch_; }
    ValueSlider& bandwidth() const { return *bandwidth_; }
    ValueSlider& latency() const { return *latency_; }
    ValueSlider& memoryLimit() const { return *memoryLimit_; }
    QComboBox& checkpoint() const { return *checkpoint_; }
    QComboBox& schedule() const { return *schedule_; }
    QComboBox& update() const { return *update_; }
    /// Uses the schedule of this CSV file. Says why if it cannot.
    void openSchedule(const QString& path);
    LaneSpeedEditor& speeds() const { return *speeds_; }
    PlacementEditor& placement() const { return *placement_; }
    ScenarioFigures& figures() const { return *figures_; }
    PeakBars& peaks() const { return *peaks_; }
    /// The line that says what the figures were computed for.
    QString basis() const;

Q_SIGNALS:
    /// The user wants to pin the present scenario for comparison.
    void pinRequested();

protected:
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    QWidget* createForm();
    QWidget* createButtons();
    QWidget* createBalanceButtons(QWidget* parent);
    void addPipelineRows(QFormLayout& form);
    void addHardwareRows(QFormLayout& form);
    void connectControls();
    void connectSlider(ValueSlider& slider, int control, const QString& what,
                       std::function<void(Scenario&, double)> change);
    void connectChoice(QComboBox& choice, const QString& what,
                       std::function<void(Scenario&, const std::string&)> change);

    void chooseSchedule(const QString& name);
    void showSchedule(const Schedule& schedule);
    void changeTo(const QString& what, const std::function<void(Scenario&)>& change);

    void showProfile();
    void showScenario();
    void showBand();
    void showResult();
    QString errorText() const;
    void say(const QString& text);

    ScenarioModel& model_;
    QWidget* content_ = nullptr;
    QLabel* empty_ = nullptr;
    QLabel* title_ = nullptr;
    ScenarioFigures* figures_ = nullptr;
    QLabel* basis_ = nullptr;
    QPushButton* back_ = nullptr;
    QFormLayout* form_ = nullptr;
    ValueSlider* partitions_ = nullptr;
    ValueSlider* perLane_ = nullptr;
    ValueSlider* microBatches_ = nullptr;
    ValueSlider* batch_ = nullptr;
    QComboBox* checkpoint_ = nullptr;
    QComboBox* schedule_ = nullptr;
    QComboBox* update_ = nullptr;
    ValueSlider* bandwidth_ = nullptr;
    ValueSlider* latency_ = nullptr;
    LaneSpeedEditor* speeds_ = nullptr;
    PlacementEditor* placement_ = nullptr;
    ValueSlider* memoryLimit_ = nullptr;
    QComboBox* optimizer_ = nullptr;
    PeakBars* peaks_ = nullptr;
    QString about_;  // warnings about the displayed scenario; its notes would seem to be about a refused value
    QLabel* messages_ = nullptr;
};
}  // namespace pipescope
