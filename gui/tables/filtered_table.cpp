#include "gui/tables/filtered_table.h"

#include "gui/style/arrange.h"
#include "gui/tables/table_export.h"

#include <QHeaderView>
#include <QKeyEvent>
#include <QLabel>
#include <QTableView>

#include <algorithm>

namespace pipescope {
namespace {
bool isNumber(const QVariant& value) {
    switch (value.typeId()) {
        case QMetaType::Int:
        case QMetaType::UInt:
        case QMetaType::LongLong:
        case QMetaType::ULongLong:
        case QMetaType::Double: return true;
        default: return false;
    }
}
}  // namespace

void TableFilter::setText(const QString& text) {
    words_ = text.simplified().split(QLatin1Char(' '), Qt::SkipEmptyParts);
    invalidateFilter();
}

void TableFilter::leaveOut(int column, bool isLeftOut) {
    const bool changes = isLeftOut ? leftOut_.insert(column).second : leftOut_.erase(column) > 0;
    if (changes) {
        invalidateFilter();
    }
}

bool TableFilter::filterAcceptsRow(int row, const QModelIndex& parent) const {
    if (words_.isEmpty()) {
        return true;
    }
    QString all;
    for (int column = 0; column < sourceModel()->columnCount(parent); ++column) {
        if (!leftOut_.contains(column)) {
            all += sourceModel()->index(row, column, parent).data().toString() + QLatin1Char('\n');
        }
    }
    return std::all_of(words_.begin(), words_.end(),
                       [&](const QString& word) { return all.contains(word, Qt::CaseInsensitive); });
}

bool TableFilter::lessThan(const QModelIndex& left, const QModelIndex& right) const {
    const QVariant a = left.data(kExportRole);
    const QVariant b = right.data(kExportRole);
    if (isNumber(a) && isNumber(b)) {
        return a.toDouble() < b.toDouble();
    }
    if (isNumber(a) != isNumber(b)) {
        return isNumber(a) == (sortOrder() == Qt::AscendingOrder);
    }
    return QString::localeAwareCompare(left.data().toString(), right.data().toString()) < 0;
}

FilterLine::FilterLine(QTableView& table, const QString& name, QWidget* parent) : QLineEdit(parent), table_(table) {
    setAccessibleName(name);
    setPlaceholderText(tr("Filter ( / )"));
    setToolTip(tr("Lists the rows that contain every word"));
    setClearButtonEnabled(true);
    table_.installEventFilter(this);
}

bool FilterLine::eventFilter(QObject* watched, QEvent* event) {
    const bool isKey = event->type() == QEvent::KeyPress || event->type() == QEvent::ShortcutOverride;
    if (watched == &table_ && isKey && static_cast<const QKeyEvent*>(event)->text() == QLatin1String("/")) {
        if (event->type() == QEvent::KeyPress) {
            setFocus(Qt::ShortcutFocusReason);
            selectAll();
        }
        event->accept();  // elsewhere it searches the timelines
        return true;
    }
    return QLineEdit::eventFilter(watched, event);
}

void FilterLine::keyPressEvent(QKeyEvent* event) {
    switch (event->key()) {
        case Qt::Key_Escape:
            if (text().isEmpty()) {
                goToTable();
            } else {
                clear();
            }
            break;
        case Qt::Key_Return:
        case Qt::Key_Enter:
        case Qt::Key_Down: goToTable(); break;
        default: QLineEdit::keyPressEvent(event);
    }
}

void FilterLine::goToTable() {
    table_.setFocus(Qt::ShortcutFocusReason);
}

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

void FilteredTable::setColumnHidden(int column, bool isHidden) {
    table_->setColumnHidden(column, isHidden);
    rows_->leaveOut(column, isHidden);
    refreshHint();
}

void FilteredTable::keepNamesBesideFigures() {
    namesAreBeside_ = true;
    table_->horizontalHeader()->setSectionResizeMode(0, QHeaderView::ResizeToContents);
}

void FilteredTable::resizeEvent(QResizeEvent* event) {
    QWidget::resizeEvent(event);
    if (namesAreBeside_) {  // a long name must not push the figures out of sight
        table_->horizontalHeader()->setMaximumSectionSize(std::max(width() / 2, 1));
    }
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
