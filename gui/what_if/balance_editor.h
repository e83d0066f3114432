#pragma once

#include <QWidget>

class QLabel;

namespace pipescope {
class BalanceBar;
class ElidedLabel;
class ScenarioModel;

/// A balance bar connected to a scenario. Moving a cut changes the scenario, with undo, and the bar shows the simulated
/// result. A text below compares the balance with the best one.
class BalanceEditor : public QWidget {
    Q_OBJECT

public:
    explicit BalanceEditor(ScenarioModel& model, QWidget* parent = nullptr);

    BalanceBar& bar() const { return *bar_; }
    QString facts() const;

private:
    QWidget* createTop();
    void refresh();

    ScenarioModel& model_;
    BalanceBar* bar_;
    ElidedLabel* facts_ = nullptr;
    QLabel* hint_ = nullptr;
};
}  // namespace pipescope
