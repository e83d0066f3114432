#include "gui/what_if/pinned_scenarios.h"

#include "gui/style/arrange.h"
#include "gui/tables/table_export.h"
#include "gui/what_if/scenario_figures.h"

#include <QHeaderView>
#include <QKeyEvent>
#include <QLabel>
#include <QPushButton>
#include <QSplitter>
#include <QTableView>

#include <algorithm>

namespace pipescope {
namespace {
/// The name and configuration precede the figures.
constexpr int kNameColumns = 2;
}  // namespace

void PinnedTableModel::setScenarios(std::vector<PinnedScenario> scenarios) {
    beginResetModel();
    scenarios_ = std::move(scenarios);
    endResetModel();
}

int PinnedTableModel::rowCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : static_cast<int>(scenarios_.size());
}

int PinnedTableModel::columnCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : kNameColumns + static_cast<int>(figureNames({}).size());
}

QVariant PinnedTableModel::data(const QModelIndex& index, int role) const {
    if (!index.isValid() || static_cast<std::size_t>(index.row()) >= scenarios_.size()) {
        return {};
    }
    const PinnedScenario& pinned = scenarios_[static_cast<std::size_t>(index.row())];
    if (role == Qt::TextAlignmentRole && index.column() >= kNameColumns) {
        return QVariant(Qt::AlignRight | Qt::AlignVCenter);
    }
    if (role == Qt::ToolTipRole && index.column() < kNameColumns) {
        return tr("%1\nbalance %2")
            .arg(scenarioName(pinned.simulated->scenario),
                 QString::fromStdString(to_string(pinned.simulated->scenario.options.balance)));
    }
    if (role == kExportRole && index.column() >= kNameColumns) {
        return scenarioFigures(*pinned.simulated, nullptr)[static_cast<std::size_t>(index.column() - kNameColumns)]
            .plain;
    }
    if (role != Qt::DisplayRole && role != kExportRole) {
        return {};
    }
    if (index.column() < kNameColumns) {
        return index.column() == 0 ? pinned.name : scenarioName(pinned.simulated->scenario);
    }
    const SimulatedScenario* first = index.row() == 0 ? nullptr : scenarios_.front().simulated.get();
    const ScenarioFigure figure =
        scenarioFigures(*pinned.simulated, first)[static_cast<std::size_t>(index.column() - kNameColumns)];
    return figure.change.isEmpty() ? figure.value : QStringLiteral("%1 (%2)").arg(figure.value, figure.change);
}

QVariant PinnedTableModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation != Qt::Horizontal || (role != Qt::DisplayRole && role != Qt::ToolTipRole && role != kExportRole)) {
        return QAbstractTableModel::headerData(section, orientation, role);
    }
    if (section < kNameColumns && role == kExportRole) {
        return section == 0 ? QStringLiteral("scenario") : QStringLiteral("configuration");
    }
    if (section < kNameColumns) {
        return section == 0 ? tr("Scenario") : tr("Configuration");
    }
    const Simulation none;
    const ScenarioFigure figure = figureNames(scenarios_.empty() ? none : scenarios_.front().simulated->simulation)
                                      .at(static_cast<std::size_t>(section - kNameColumns));
    return role == kExportRole ? figure.key : role == Qt::ToolTipRole ? figure.help : figure.name;
}

PinnedScenarios::PinnedScenarios(QWidget* parent)
    : QWidget(parent),
      model_(new PinnedTableModel(this)),
      table_(named(new QTableView(this), tr("Pinned scenarios"))),
      timelines_(new ScenarioTimelines(this)),
      message_(new QLabel(this)),
      remove_(new QPushButton(tr("&Remove"), this)),
      open_(new QPushButton(tr("&Show"), this)) {
    table_->setModel(model_);
    table_->setSelectionBehavior(QAbstractItemView::SelectRows);
    table_->setSelectionMode(QAbstractItemView::SingleSelection);
    table_->setTabKeyNavigation(false);
    table_->verticalHeader()->hide();
    table_->verticalHeader()->setDefaultSectionSize(fontMetrics().height() + 4);
    table_->horizontalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
    table_->horizontalHeader()->setStretchLastSection(true);
    table_->setFrameShape(QFrame::NoFrame);
    table_->setShowGrid(false);
    table_->setAlternatingRowColors(true);
    table_->installEventFilter(this);
    message_->setWordWrap(true);
    open_->setToolTip(tr("Load it into the what-if panel"));
    auto* line = arrange(new QHBoxLayout, {8, 2, 8, 2}, -1, {{message_, 1}, open_, remove_});
    auto* split = new QSplitter(Qt::Vertical, this);
    split->addWidget(table_);
    split->addWidget(timelines_);
    split->setStretchFactor(1, 1);
    split->setChildrenCollapsible(false);
    arrange(new QVBoxLayout(this), {0, 0, 0, 0}, 0, {line, {split, 1}});
    setFocusProxy(table_);
    connect(remove_, &QPushButton::clicked, this, &PinnedScenarios::removeSelected);
    connect(open_, &QPushButton::clicked, this, &PinnedScenarios::openSelected);
    connect(table_, &QTableView::doubleClicked, this, &PinnedScenarios::openSelected);
    refresh();
}

void PinnedScenarios::pin(const std::shared_ptr<const SimulatedScenario>& scenario, const QString& name) {
    if (!scenario || !scenario->runs()) {
        message_->setText(tr("A scenario that cannot run is not pinned."));
        return;
    }
    const bool known = std::any_of(scenarios_.begin(), scenarios_.end(), [&](const PinnedScenario& each) {
        return each.simulated->scenario == scenario->scenario;
    });
    if (known) {
        message_->setText(tr("This scenario is pinned already."));
        return;
    }
    if (scenarios_.size() == kMost) {
        message_->setText(tr("All %1 places are taken: remove one first.").arg(kMost));
        return;
    }
    scenarios_.push_back({name, scenario});
    refresh();
}

void PinnedScenarios::clear() {
    scenarios_.clear();
    refresh();
}

void PinnedScenarios::removeSelected() {
    const QModelIndex row = table_->currentIndex();
    if (row.isValid()) {
        scenarios_.erase(scenarios_.begin() + row.row());
        refresh();
    }
}

void PinnedScenarios::openSelected() {
    const QModelIndex row = table_->currentIndex();
    if (row.isValid()) {
        Q_EMIT opened(Scenario(scenarios_[static_cast<std::size_t>(row.row())].simulated->scenario));
    }
}

void PinnedScenarios::refresh() {
    model_->setScenarios(scenarios_);
    timelines_->setScenarios(scenarios_);
    remove_->setEnabled(!scenarios_.empty());
    open_->setEnabled(!scenarios_.empty());
    if (!scenarios_.empty()) {
        table_->selectRow(static_cast<int>(scenarios_.size()) - 1);
        message_->setText(tr("In brackets: difference from the first one."));
    } else {
        message_->setText(tr("Pin up to %1 scenarios in the what-if panel to compare them here.").arg(kMost));
    }
}

QString PinnedScenarios::message() const {
    return message_->text();
}

bool PinnedScenarios::eventFilter(QObject* watched, QEvent* event) {
    if (watched == table_ && event->type() == QEvent::KeyPress) {
        const int key = static_cast<const QKeyEvent*>(event)->key();
        if (key == Qt::Key_Delete) {
            removeSelected();
            return true;
        }
        if (key == Qt::Key_Return || key == Qt::Key_Enter) {
            openSelected();
            return true;
        }
    }
    return QWidget::eventFilter(watched, event);
}
}  // namespace pipescope
