#include "gui/tables/task_table.h"

#include "gui/style/arrange.h"
#include "gui/style/elided_label.h"
#include "gui/style/number_format.h"
#include "gui/style/task_style.h"
#include "gui/tables/filtered_table.h"
#include "gui/tables/table_export.h"
#include "gui/tables/table_models.h"

#include <QComboBox>
#include <QHeaderView>
#include <QLineEdit>
#include <QLocale>
#include <QPushButton>
#include <QSignalBlocker>
#include <QTableView>

namespace pipescope {
namespace {
constexpr int kAll = -1;
constexpr int kChosenStep = 1;  // index in the step box
}  // namespace

TaskTable::TaskTable(QWidget* parent)
    : QWidget(parent), model_(new TaskTableModel(this)), table_(new QTableView(this)) {
    arrange(new QVBoxLayout(this), {4, 4, 4, 0}, 4, {createFilters(), {table_, 1}});
    createTable();
    setDocument(nullptr, 0);
}

QWidget* TaskTable::createFilters() {
    auto* bar = new QWidget(this);
    sources_ = named(new QComboBox(bar), tr("Timeline listed"));
    kinds_ = named(new QComboBox(bar), tr("Kind of task"));
    lanes_ = named(new QComboBox(bar), tr("Lane"));
    steps_ = named(new QComboBox(bar), tr("Steps listed"));
    steps_->addItems({tr("All steps"), tr("Chosen step")});
    connect(steps_, &QComboBox::activated, this, [this] { stepsChosen_ = true; });
    filter_ = new FilterLine(*table_, tr("Filter tasks"), bar);
    filter_->setPlaceholderText(tr("F3, backward 2 1, mb 4, partition 0, step 7, layer conv, >1.5x"));
    filter_->setToolTip(
        tr("Micro-batch first, then partition, as in backward 2 1; or words such as mb 4, partition 0, "
           "step 7, lane 1, layer NAME, >=20ms, or >1.5x for more than 1.5 medians of such tasks"));
    status_ = new ElidedLabel(bar);
    export_ = new QPushButton(tr("&Export…"), bar);
    export_->setToolTip(tr("Write the listed tasks as CSV or JSON"));
    for (QComboBox* box : {sources_, steps_, kinds_, lanes_}) {
        box->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
        box->setMinimumContentsLength(9);
        connect(box, &QComboBox::currentIndexChanged, this, &TaskTable::restart);
    }
    arrange(new QHBoxLayout(bar), {0, 0, 0, 0}, -1,
            {sources_, steps_, kinds_, lanes_, {filter_, 2}, {status_, 1}, export_});
    connect(filter_, &QLineEdit::textChanged, this, &TaskTable::restart);
    connect(export_, &QPushButton::clicked, this, &TaskTable::exportRows);
    return bar;
}

void TaskTable::createTable() {
    table_->setModel(model_);
    table_->setAccessibleName(tr("Tasks"));
    makeCompact(*table_);
    table_->setWordWrap(false);
    // A fixed row height makes the layout of ten million rows free.
    table_->verticalHeader()->setSectionResizeMode(QHeaderView::Fixed);
    QHeaderView* header = table_->horizontalHeader();
    header->setSectionResizeMode(QHeaderView::Interactive);
    header->setSectionResizeMode(0, QHeaderView::Stretch);
    header->setMinimumSectionSize(table_->fontMetrics().averageCharWidth() * 8);
    header->setDefaultSectionSize(table_->fontMetrics().averageCharWidth() * 13);
    header->resizeSection(static_cast<int>(TaskColumn::start), table_->fontMetrics().averageCharWidth() * 18);
    header->setSectionsClickable(true);
    header->setSortIndicatorShown(true);
    header->setSortIndicator(static_cast<int>(TaskColumn::start), Qt::AscendingOrder);
    connect(header, &QHeaderView::sortIndicatorChanged, this, &TaskTable::restart);
    connect(table_->selectionModel(), &QItemSelectionModel::currentRowChanged, this,
            [this](const QModelIndex& current) {
                if (!marking_ && current.isValid() && model_->rows() != nullptr) {
                    Q_EMIT picked(model_->rows()->source(),
                                  model_->rows()->sliceAt(static_cast<std::size_t>(current.row())));
                }
            });
}

QString TaskTable::status() const {
    return status_->text();
}

Source TaskTable::source() const {
    return static_cast<Source>(sources_->currentData().toInt());
}

void TaskTable::setDocument(std::shared_ptr<const TraceDocument> document, std::int32_t step) {
    const bool other = document != document_;
    document_ = std::move(document);
    step_ = step;
    if (other) {
        selected_.reset();
        fillChoices();
        if (!stepsChosen_) {
            const QSignalBlocker blocker(steps_);
            const bool large =
                document_ && document_->measured && document_->measured->numSlices() > kMostListedUnasked;
            steps_->setCurrentIndex(large ? kChosenStep : 0);
        }
    }
    restart();
}

void TaskTable::fillChoices() {
    const QSignalBlocker noSources(sources_);
    const QSignalBlocker noKinds(kinds_);
    const QSignalBlocker noLanes(lanes_);
    const QVariant kind = kinds_->currentData();
    for (QComboBox* box : {sources_, kinds_, lanes_}) {
        box->clear();
    }
    kinds_->addItem(tr("All kinds"), kAll);
    lanes_->addItem(tr("All lanes"), kAll);
    for (int each = 0; each < kNumTaskKinds; ++each) {
        kinds_->addItem(styleOf(static_cast<TaskKind>(each)).name, each);
    }
    kinds_->setCurrentIndex(std::max(0, kinds_->findData(kind)));
    if (!document_) {
        return;
    }
    if (document_->measured) {
        sources_->addItem(inWordsOf(*document_, tr("Measured")), static_cast<int>(Source::measured));
    }
    if (document_->simulated) {
        sources_->addItem(inWordsOf(*document_, tr("Simulated")), static_cast<int>(Source::simulated));
    }
    const TimelineStore* names = document_->measured ? document_->measured.get() : document_->simulated.get();
    for (std::size_t lane = 0; names != nullptr && lane < names->lanes().size(); ++lane) {
        lanes_->addItem(QString::fromStdString(names->lanes()[lane].name), static_cast<int>(lane));
    }
}

TaskQuery TaskTable::withChoices(TaskQuery query) const {
    if (kinds_->currentData().toInt() != kAll) {
        query.keep(std::uint32_t{1} << kinds_->currentData().toUInt());
    }
    if (lanes_->currentData().toInt() != kAll) {
        query.lane = lanes_->currentData().toInt();
    }
    // A typed step overrides the box. The simulated timeline has only one step.
    if (steps_->currentIndex() == kChosenStep && source() == Source::measured && !query.step) {
        query.step = step_;
    }
    return query;
}

void TaskTable::restart() {
    job_.drop();
    stale_ = !isVisible();
    if (stale_) {
        return;  // a hidden table need not be sorted
    }
    if (!document_ || sources_->count() == 0) {
        showRows(nullptr);
        return;
    }
    const std::optional<TaskQuery> query = parseTaskQuery(filter_->text(), *document_);
    if (!query) {
        status_->setText(tr("“%1” is not a task").arg(filter_->text()));
        return;
    }
    const QHeaderView& header = *table_->horizontalHeader();
    const TaskOrder order{static_cast<TaskColumn>(header.sortIndicatorSection()),
                          header.sortIndicatorOrder() == Qt::DescendingOrder};
    job_.start(
        *this,
        [document = document_, source = source(), step = step_, chosen = withChoices(*query),
         order](const std::function<bool()>& cancelled) {
            return TaskRows::make(document, source, step, chosen, order, cancelled);
        },
        [this](std::shared_ptr<const TaskRows> rows) { showRows(std::move(rows)); },
        [this](const QString& error) {
            showRows(nullptr);
            status_->setText(error);
        });
}

void TaskTable::showRows(std::shared_ptr<const TaskRows> rows) {
    model_->setRows(std::move(rows));
    const TaskRows* listed_rows = model_->rows();
    if (listed_rows == nullptr) {
        status_->setText(document_ ? tr("This file holds no tasks of a pipeline.")
                                   : tr("Open a trace to list its tasks."));
    } else if (listed_rows->size() == listed_rows->total()) {
        status_->setText(formatCount(listed_rows->total(), tr("task"), tr("tasks")));
    } else {
        status_->setText(tr("%1 of %2")
                             .arg(QLocale().toString(static_cast<qulonglong>(listed_rows->size())),
                                  formatCount(listed_rows->total(), tr("task"), tr("tasks"))));
    }
    export_->setEnabled(model_->rowCount() > 0);
    markSelected();
    Q_EMIT listed();
}

void TaskTable::select(Source in, std::optional<SliceRef> slice) {
    selected_ = slice;
    selectedIn_ = in;
    if (slice && sources_->count() > 1 && source() != in) {
        sources_->setCurrentIndex(sources_->findData(static_cast<int>(in)));  // lists the other timeline, then marks
        return;
    }
    markSelected();
}

void TaskTable::markSelected() {
    marking_ = true;
    const TaskRows* rows = model_->rows();
    const std::optional<std::size_t> row =
        rows != nullptr && selected_ && rows->source() == selectedIn_ ? rows->rowOf(*selected_) : std::nullopt;
    if (!row) {
        table_->selectionModel()->clear();
    } else if (table_->currentIndex().row() != static_cast<int>(*row)) {
        table_->selectRow(static_cast<int>(*row));
        table_->scrollTo(model_->index(static_cast<int>(*row), 0));
    }
    marking_ = false;
}

void TaskTable::showEvent(QShowEvent* event) {
    QWidget::showEvent(event);
    if (stale_) {
        restart();
    }
}

void TaskTable::exportRows() {
    const QString error = askAndSaveTable(*this, tr("Export the tasks"), tr("tasks.csv"), *model_);
    if (!error.isEmpty()) {
        Q_EMIT failed(error);
    }
}
}  // namespace pipescope
