#pragma once

#include <QWidget>

class QLabel;

namespace pipescope {
class BalanceBar;
class ElidedLabel;
class ScenarioModel;

/// The bar of layers with its cuts, wired to a scenario: moving a cut changes it, step by undoable step, and the bar
/// follows what the simulation says. Below: what the balance costs against the best one.
class BalanceEditor : public QWidget {
    Q_OBJECT

public:
    /// `model` must outlive the editor.
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
