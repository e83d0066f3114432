#pragma once

#include "analysis/bubble_roots.h"
#include "gui/document/scenario.h"
#include "gui/style/work_pool.h"
#include "gui/tables/column_model.h"
#include "simulator/plan/advice.h"

#include <QString>
#include <QWidget>

#include <memory>
#include <optional>
#include <vector>

class QLabel;
class QPushButton;
class QTableView;

namespace pipescope {
class ScenarioModel;

/// A move as the panel lists it. Figures are of the expected step once the noise is known.
struct AdviceRow {
    Move move;
    StepFigures figures;
    double change = 0;                     ///< of the step, relative to the present scenario: -0.2 is a fifth shorter
    bool withinNoise = false;              ///< shorter by no more than the noise may explain
    bool withinError = false;              ///< changed by no more than the simulation's error on the recorded run
    std::optional<ModelError> error = {};  ///< that error; empty: not known
};

class AdviceTableModel : public RowModel<AdviceRow> {
public:
    enum Column { title, step, change, bubble, peak, effect, why };
    /// Length of a row's bar, from -1 to 1: its change relative to the largest gain. Longer steps may be cut off.
    static constexpr int kBarRole = Qt::UserRole + 1;
    explicit AdviceTableModel(QObject* parent = nullptr);
    /// `withoutNoise`: the steps lack the noise of the profile, which follows.
    void setMoves(std::vector<AdviceRow> rows, bool withoutNoise = false);
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;
    /// Moves that do not help are faint. The tool tip of a row says what it takes.
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;

private:
    double largest_ = 1;
    bool withoutNoise_ = false;
};

/// Single changes of the present scenario, the best first, each with its predicted effect. Try, a double click or Enter
/// makes one the scenario, and the list then starts from there. It is computed in the background while the panel is
/// visible: first without noise, then with it.
class AdvicePanel : public QWidget {
    Q_OBJECT

public:
    /// `model` must outlive the panel.
    explicit AdvicePanel(ScenarioModel& model, QWidget* parent = nullptr);
    ~AdvicePanel() override;

    /// Why there is no scenario, worded to follow "this file"; empty: it holds no profile.
    void setReason(const QString& why);
    QTableView& table() const { return *table_; }
    QPushButton& tryButton() const { return *try_; }
    /// Leads to the bubbles that the selected change makes shorter.
    QPushButton& bubblesButton() const { return *bubbles_; }
    /// Copies the command that runs the selected change, so that a run decides.
    QPushButton& checkButton() const { return *check_; }
    /// Selects the best of the changes of these kinds, now or once they are known.
    void selectKind(std::vector<MoveKind> kinds);
    /// The text above the table: the situation, or why there is no list.
    QString message() const;
    /// False while the list is outdated or lacks the noise.
    bool isComplete() const { return complete_; }

Q_SIGNALS:
    /// A move was chosen: the scenario that it makes, and its title.
    void tried(const pipescope::Scenario& scenario, const QString& what);
    /// The user wants to see the bubbles of this root cause.
    void bubblesAsked(pipescope::RootCause root);
    /// A command was copied, as a sentence.
    void said(const QString& text);
    /// The list is complete.
    void advised();

protected:
    void showEvent(QShowEvent* event) override;
    /// Computes what is outdated, after a rest.
    void wake();
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    void restart();
    void compute();
    void computeNoise(const CheckedProfile& profile, const Advice& advice);
    void list(std::shared_ptr<const Advice> advice, bool noiseFollows);
    /// Fills the table from the present list.
    void relist();
    void finish();
    void say(const QString& text);
    void tryRow(int row);
    void refreshButtons();
    void copyCheck();
    void selectWanted();

    ScenarioModel& model_;
    QString reason_;
    AdviceTableModel* rows_;
    QLabel* message_;
    QPushButton* try_;
    QPushButton* bubbles_;
    QPushButton* check_;
    QTableView* table_;
    RestedWork* rest_;
    LatestJob job_;
    std::shared_ptr<const Advice> advice_;  // as listed; null: none is
    std::vector<MoveKind> wanted_;          // kinds of which the best is to be selected
    bool noiseFollows_ = false;
    bool outdated_ = true;  // compute() is due as soon as the panel is visible
    bool complete_ = false;
};
}  // namespace pipescope
