#include "gui/tables/filtered_table.h"

#include "gui/style/arrange.h"
#include "gui/tables/filter_line.h"
#include "gui/tables/table_filter.h"

#include <QHeaderView>
#include <QLabel>

namespace pipescope {
void makeCompact(QTableView& table) {
    table.verticalHeader()->hide();
    table.verticalHeader()->setMinimumSectionSize(table.fontMetrics().height() + 2);
    table.verticalHeader()->setDefaultSectionSize(table.fontMetrics().height() + 4);
    table.horizontalHeader()->setHighlightSections(false);
    table.setAlternatingRowColors(true);
    table.setShowGrid(false);
    table.setFrameShape(QFrame::NoFrame);
    table.setTabKeyNavigation(false);
    table.setSelectionBehavior(QAbstractItemView::SelectRows);
    table.setSelectionMode(QAbstractItemView::SingleSelection);
}

void styleTable(QTableView& table) {
    makeCompact(table);
    table.horizontalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
    table.horizontalHeader()->setSectionResizeMode(0, QHeaderView::Stretch);
    table.horizontalHeader()->setMinimumSectionSize(table.fontMetrics().averageCharWidth() * 8);
}

void makeSortable(QTableView& table) {
    table.horizontalHeader()->setSortIndicator(-1, Qt::AscendingOrder);
    table.setSortingEnabled(true);
}

FilteredTable::FilteredTable(QAbstractItemModel& model, const QString& name, const QString& empty, QWidget* parent)
    : QWidget(parent),
      empty_(empty),
      hint_(new QLabel(this)),
      rows_(new TableFilter(this)),
      table_(named(new QTableView(this), name)),
      line_(new FilterLine(*table_, tr("Filter: %1").arg(name), this)) {
    rows_->setSourceModel(&model);
    table_->setModel(rows_);
    styleTable(*table_);
    makeSortable(*table_);
    arrange(new QVBoxLayout(this), {4, 4, 4, 0}, 4, {line_, hint_, {table_, 1}});
    hint_->setWordWrap(true);
    setTabOrder(line_, table_);
    connect(line_, &QLineEdit::textChanged, rows_, &TableFilter::setText);
    connect(line_, &QLineEdit::textChanged, this, &FilteredTable::refreshHint);
    connect(rows_, &QAbstractItemModel::modelReset, this, &FilteredTable::refreshHint);
    refreshHint();
    const auto pick = [this](const QModelIndex& index) { Q_EMIT picked(rows_->mapToSource(index)); };
    connect(table_, &QTableView::clicked, this, pick);
    connect(table_, &QTableView::activated, this, pick);
}

void FilteredTable::refreshHint() {
    const bool none = rows_->sourceModel()->rowCount() == 0;
    hint_->setText(none ? empty_ : rows_->rowCount() == 0 ? tr("No row contains all of these words.") : QString());
    hint_->setVisible(!hint_->text().isEmpty());
}

void FilteredTable::setEmptyText(const QString& text) {
    empty_ = text;
    refreshHint();
}

QString FilteredTable::hint() const {
    return hint_->text();
}
}  // namespace pipescope
