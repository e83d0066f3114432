#include "gui/plan/candidates_view.h"

#include "gui/plan/pareto_chart.h"
#include "gui/style/arrange.h"
#include "gui/style/enter_key.h"
#include "gui/tables/filtered_table.h"

#include <QHeaderView>
#include <QLabel>
#include <QProgressBar>
#include <QPushButton>
#include <QScrollArea>
#include <QScrollBar>
#include <QSplitter>
#include <QTableView>

namespace pipescope {
namespace {
constexpr int kProgressParts = 1000;
}  // namespace

CandidatesView::CandidatesView(QWidget* parent)
    : QWidget(parent),
      chart_(new ParetoChart(this)),
      table_(new QTableView(this)),
      message_(new QLabel(this)),
      filter_(new FilterLine(*table_, tr("Filter the candidates"), this)),
      run_(new QPushButton(this)),
      progress_(named(new QProgressBar(this), tr("Progress of the plan"))) {
    message_->setWordWrap(true);
    message_->setTextInteractionFlags(Qt::TextSelectableByMouse);
    filter_->setMaximumWidth(fontMetrics().averageCharWidth() * 20);
    progress_->setRange(0, kProgressParts);
}

void CandidatesView::arrangeParts(const Parts& parts) {
    rows_ = &parts.candidates;
    named(table_, parts.tableName)->setModel(rows_);
    makeCompact(*table_);
    table_->horizontalHeader()->setStretchLastSection(true);
    table_->installEventFilter(this);
    filter_->setPlaceholderText(parts.filterHint);

    auto* right = new QWidget(this);
    auto* top = arrange(new QHBoxLayout, {4, 2, 4, 0}, -1, {{message_, 1}, filter_});
    for (QWidget* each : parts.beside) {
        top->addWidget(each);
    }
    auto* results = new QSplitter(Qt::Horizontal, right);
    results->addWidget(table_);
    results->addWidget(chart_);
    results->setStretchFactor(0, 3);
    results->setStretchFactor(1, 2);
    arrange(new QVBoxLayout(right), {0, 0, 0, 0}, 2, {top, {results, 1}});

    auto* side = new QWidget(this);
    auto* scroll = named(new QScrollArea(side), parts.formName);
    scroll->setFrameShape(QFrame::NoFrame);
    scroll->setWidgetResizable(true);
    scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    scroll->setWidget(&parts.form);
    scroll->setMinimumWidth(parts.form.sizeHint().width() + scroll->verticalScrollBar()->sizeHint().width());
    auto* line = arrange(new QHBoxLayout, {8, 0, 8, 4}, -1, {run_, {progress_, 1}});
    arrange(new QVBoxLayout(side), {0, 0, 0, 0}, -1, {{scroll, 1}, line});

    auto* split = new QSplitter(Qt::Horizontal, this);
    split->addWidget(side);
    split->addWidget(right);
    split->setStretchFactor(1, 1);
    split->setChildrenCollapsible(false);
    arrange(new QVBoxLayout(this), {0, 0, 0, 0}, -1, {split});

    connect(filter_, &QLineEdit::textChanged, rows_, &TableFilter::setText);
    connect(table_, &QTableView::doubleClicked, this, &CandidatesView::openRow);
    connect(table_->selectionModel(), &QItemSelectionModel::currentRowChanged, this,
            [this](const QModelIndex& row) { chart_->select(candidateOf(row)); });
    connect(chart_, &ParetoChart::picked, this, &CandidatesView::selectCandidate);
    connect(chart_, &ParetoChart::activated, this, &CandidatesView::openCandidate);
    showRunning(false);
}

QString CandidatesView::message() const {
    return message_->text();
}

void CandidatesView::say(const QString& text) {
    message_->setText(text);
}

void CandidatesView::showRunning(bool running) {
    run_->setText(running ? tr("&Cancel") : tr("&Plan"));
    progress_->setVisible(running);
    progress_->setValue(0);
}

void CandidatesView::showProgress(double done) {
    progress_->setValue(static_cast<int>(done * kProgressParts));
}

std::optional<std::size_t> CandidatesView::candidateOf(const QModelIndex& row) const {
    return row.isValid() ? std::optional(static_cast<std::size_t>(rows_->mapToSource(row).row())) : std::nullopt;
}

void CandidatesView::selectCandidate(std::size_t candidate) {
    const QModelIndex row = rows_->mapFromSource(rows_->sourceModel()->index(static_cast<int>(candidate), 0));
    if (row.isValid()) {
        table_->selectRow(row.row());
        table_->scrollTo(row);
    }
}

void CandidatesView::openRow(const QModelIndex& row) {
    if (const std::optional<std::size_t> candidate = candidateOf(row)) {
        openCandidate(*candidate);
    }
}

bool CandidatesView::eventFilter(QObject* watched, QEvent* event) {
    if (watched == table_ && pressesEnter(*event)) {
        openRow(table_->currentIndex());
        return true;
    }
    return QWidget::eventFilter(watched, event);
}
}  // namespace pipescope
