#pragma once

#include <QList>
#include <QWidget>

#include <cstddef>
#include <optional>

class QLabel;
class QModelIndex;
class QProgressBar;
class QPushButton;
class QTableView;

namespace pipescope {
class FilterLine;
class ParetoChart;
class TableFilter;

/// A form with a button that plans, the table of the plan's candidates, and their chart. Both select the same
/// candidate, and a double click or Enter opens it.
class CandidatesView : public QWidget {
    Q_OBJECT

public:
    QTableView& table() const { return *table_; }
    ParetoChart& chart() const { return *chart_; }
    /// Starts the plan, or cancels a running one.
    QPushButton& button() const { return *run_; }
    QProgressBar& progress() const { return *progress_; }
    QString message() const;
    virtual void openCandidate(std::size_t candidate) = 0;

Q_SIGNALS:
    void finished();

protected:
    explicit CandidatesView(QWidget* parent);

    struct Parts {
        QWidget& form;
        TableFilter& candidates;  ///< of a model with candidate k in row k
        QString tableName;        ///< for screen readers
        QString formName;         ///< likewise
        QString filterHint;
        QList<QWidget*> beside = {};  ///< the filter line, on its right
    };
    /// Call once, in the constructor.
    void arrangeParts(const Parts& parts);

    void say(const QString& text);
    void showRunning(bool running);
    /// `done`: 0 to 1.
    void showProgress(double done);
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    std::optional<std::size_t> candidateOf(const QModelIndex& row) const;
    void selectCandidate(std::size_t candidate);
    void openRow(const QModelIndex& row);

    TableFilter* rows_ = nullptr;
    ParetoChart* chart_;
    QTableView* table_;
    QLabel* message_;
    FilterLine* filter_;
    QPushButton* run_;
    QProgressBar* progress_;
};
}  // namespace pipescope
