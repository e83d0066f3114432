#include "gui/window/marks_panel.h"

#include "gui/style/arrange.h"
#include "gui/style/number_format.h"
#include "gui/tables/filtered_table.h"

#include <QHeaderView>
#include <QKeyEvent>
#include <QLabel>
#include <QTableView>

namespace pipescope {
namespace {
constexpr std::int64_t kMarkLength = 1'000'000;  // a mark is read to the microsecond
}  // namespace

MarksModel::MarksModel(QObject* parent)
    : ColumnModel({{translated("Mark"), "time_ns", Qt::AlignLeft,
                    [this](const TimeMark& mark) {
                        return axis_->timeStyle() == TimeStyle::clock ? axis_->instantText(mark.time, kMarkLength)
                               : axis_->timeStyle() == TimeStyle::file
                                   ? translated("%1 after the start of the file").arg(formatDuration(mark.time))
                                   : translated("%1 after the start of the step")
                                         .arg(formatDuration(mark.time - axis_->origin()));
                    },
                    [](const TimeMark& mark) { return QVariant::fromValue<qlonglong>(mark.time); }},
                   {translated("Length"), "length_ns", Qt::AlignLeft,
                    [](const TimeMark& mark) { return mark.length > 0 ? formatDuration(mark.length) : QString(); },
                    [](const TimeMark& mark) { return QVariant::fromValue<qlonglong>(mark.length); }},
                   {translated("Note"), "note", Qt::AlignLeft, [](const TimeMark& mark) { return mark.note; }}},
                  parent) {}

void MarksModel::setAxis(TimeAxisModel* axis) {
    beginResetModel();
    if (axis_) {
        axis_->disconnect(this);
    }
    axis_ = axis;
    if (axis_) {
        const auto reset = [this] {
            beginResetModel();
            endResetModel();
        };
        connect(axis_, &TimeAxisModel::marksChanged, this, reset);
        connect(axis_, &TimeAxisModel::originChanged, this, reset);
    }
    endResetModel();
}

std::optional<TimeMark> MarksModel::markAt(int row) const {
    return row >= 0 && row < rowCount() ? std::optional(axis_->marks()[static_cast<std::size_t>(row)]) : std::nullopt;
}

void MarksModel::remove(int row) {
    if (markAt(row)) {
        std::vector<TimeMark> marks = axis_->marks();
        marks.erase(marks.begin() + row);
        axis_->setMarks(std::move(marks));
    }
}

int MarksModel::rowCount(const QModelIndex& parent) const {
    return parent.isValid() || !axis_ ? 0 : static_cast<int>(axis_->marks().size());
}

QVariant MarksModel::data(const QModelIndex& index, int role) const {
    const bool edits = role == Qt::EditRole && index.column() == note;
    return ColumnModel::data(index, edits ? static_cast<int>(Qt::DisplayRole) : role);
}

bool MarksModel::setData(const QModelIndex& index, const QVariant& value, int role) {
    if (role != Qt::EditRole || index.column() != note || !markAt(index.row())) {
        return false;
    }
    std::vector<TimeMark> marks = axis_->marks();
    marks[static_cast<std::size_t>(index.row())].note = value.toString();
    axis_->setMarks(std::move(marks));
    return true;
}

Qt::ItemFlags MarksModel::flags(const QModelIndex& index) const {
    const Qt::ItemFlags own = QAbstractTableModel::flags(index);
    return index.column() == note ? own | Qt::ItemIsEditable : own;
}

MarksPanel::MarksPanel(QWidget* parent)
    : QWidget(parent),
      model_(new MarksModel(this)),
      rows_(new TableFilter(this)),
      table_(named(new QTableView(this), tr("Marks"))) {
    auto* hint = new QLabel(tr("M sets a mark at the pointer, Shift+M annotates the measured range or the selected "
                               "task. Double-click a note to edit it; Delete removes it."),
                            this);
    hint->setWordWrap(true);
    rows_->setSourceModel(model_);
    table_->setModel(rows_);
    table_->verticalHeader()->hide();
    table_->horizontalHeader()->setSectionResizeMode(0, QHeaderView::ResizeToContents);
    table_->horizontalHeader()->setStretchLastSection(true);
    table_->setShowGrid(false);
    table_->setFrameShape(QFrame::NoFrame);
    table_->setSelectionBehavior(QAbstractItemView::SelectRows);
    table_->installEventFilter(this);
    auto* filter = new FilterLine(*table_, tr("Filter the marks"), this);
    filter->setMaximumWidth(fontMetrics().averageCharWidth() * 30);
    connect(filter, &QLineEdit::textChanged, rows_, &TableFilter::setText);
    auto* line = arrange(new QHBoxLayout, {{hint, 1}, filter});
    arrange(new QVBoxLayout(this), {4, 4, 4, 0}, -1, {line, {table_, 1}});
    const auto go = [this](const QModelIndex& shown) {
        const QModelIndex index = rows_->mapToSource(shown);
        if (const std::optional<TimeMark> mark = model_->markAt(index.row());
            mark && index.column() != MarksModel::note) {
            if (mark->length > 0) {
                Q_EMIT rangePicked(mark->range());
            } else {
                Q_EMIT picked(mark->time);
            }
        }
    };
    connect(table_, &QTableView::clicked, this, go);
    connect(table_, &QTableView::activated, this, go);
}

void MarksPanel::removeSelected() {
    model_->remove(rows_->mapToSource(table_->currentIndex()).row());
}

bool MarksPanel::eventFilter(QObject* watched, QEvent* event) {
    if (watched == table_ && event->type() == QEvent::KeyPress &&
        static_cast<QKeyEvent*>(event)->key() == Qt::Key_Delete) {
        removeSelected();
        return true;
    }
    return QWidget::eventFilter(watched, event);
}
}  // namespace pipescope
