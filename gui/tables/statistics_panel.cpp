#include "gui/tables/statistics_panel.h"

#include "gui/style/arrange.h"
#include "gui/style/elided_label.h"
#include "gui/style/number_format.h"
#include "gui/tables/call_tree_model.h"
#include "gui/tables/filtered_table.h"
#include "gui/tables/length_chart.h"
#include "gui/tables/table_export.h"
#include "gui/tables/table_models.h"

#include <QComboBox>
#include <QHeaderView>
#include <QPushButton>
#include <QSignalBlocker>
#include <QSplitter>
#include <QStackedWidget>
#include <QTableView>
#include <QTreeView>

namespace pipescope {
namespace {
constexpr int kRestMilliseconds = 120;
constexpr int kLeastWithChart = 90;  // characters of the panel's width

QString nameOf(const TraceDocument& document, Counted counted) {
    switch (counted) {
        case Counted::measured_tasks: return inWordsOf(document, StatisticsPanel::tr("Measured"));
        case Counted::simulated_tasks: return inWordsOf(document, StatisticsPanel::tr("Simulated"));
        case Counted::kernels: return StatisticsPanel::tr("Kernels");
        case Counted::threads: return StatisticsPanel::tr("Threads");
        case Counted::streams: return StatisticsPanel::tr("Streams");
    }
    return {};
}

bool isSame(const StatisticsRow& a, const StatisticsRow& b) {
    return a.name == b.name && a.place == b.place;
}
}  // namespace

StatisticsPanel::StatisticsPanel(QWidget* parent)
    : QWidget(parent),
      rest_(new RestedWork(kRestMilliseconds, *this, [this] { count(); })),
      sources_(named(new QComboBox(this), tr("What is counted"))),
      ranges_(named(new QComboBox(this), tr("Range counted"))),
      views_(named(new QComboBox(this), tr("View of the statistics"))),
      status_(new ElidedLabel(this)),
      export_(new QPushButton(tr("&Export…"), this)),
      model_(new StatisticsModel(this)),
      rows_(new TableFilter(this)),
      table_(named(new QTableView(this), tr("Statistics by kind and lane"),
                   tr("Click a row to go to the longest of its tasks"))),
      calls_(new CallTreeModel(this)),
      tree_(named(new QTreeView(this), tr("Tree of calls"), tr("Click a row to go to the longest of its calls"))),
      stack_(new QStackedWidget(this)),
      chart_(new LengthChart(this)) {
    ranges_->addItems({tr("Visible range"), tr("Chosen step"), tr("Whole trace"), tr("Measured range")});
    views_->addItems({tr("By name"), tr("Call tree")});
    export_->setToolTip(tr("Write the statistics by name as CSV or JSON"));
    connect(sources_, &QComboBox::currentIndexChanged, this, &StatisticsPanel::restart);
    connect(ranges_, &QComboBox::currentIndexChanged, this, &StatisticsPanel::restart);
    connect(export_, &QPushButton::clicked, this, &StatisticsPanel::exportRows);
    rows_->setSourceModel(model_);
    table_->setModel(rows_);
    styleTable(*table_);
    makeSortable(*table_);
    table_->horizontalHeader()->setSectionResizeMode(0, QHeaderView::ResizeToContents);
    // A kernel's long name must not push the figures out of sight.
    table_->horizontalHeader()->setMaximumSectionSize(fontMetrics().averageCharWidth() * 40);
    connect(table_, &QTableView::clicked, this, &StatisticsPanel::pick);
    connect(table_, &QTableView::activated, this, &StatisticsPanel::pick);
    connect(table_->selectionModel(), &QItemSelectionModel::currentRowChanged, this,
            [this](const QModelIndex& current) {
                if (!fills_ && current.isValid()) {
                    choose(model_->rowAt(rows_->mapToSource(current).row()));
                }
            });
    tree_->setModel(calls_);
    tree_->setUniformRowHeights(true);
    tree_->setAlternatingRowColors(true);
    tree_->header()->setStretchLastSection(false);
    tree_->header()->setSectionResizeMode(QHeaderView::ResizeToContents);
    tree_->header()->setSectionResizeMode(CallTreeModel::name, QHeaderView::Stretch);
    const auto pickCall = [this](const QModelIndex& index) {
        if (const CallRow* row = holdsRows() ? calls_->rowAt(index) : nullptr) {
            const CountedItem longest = row->longest;
            Q_EMIT picked(longest);
        }
    };
    connect(tree_, &QTreeView::clicked, this, pickCall);
    connect(tree_, &QTreeView::activated, this, pickCall);
    connect(chart_, &LengthChart::picked, this, [this](const LengthBin& lengths) {
        if (charted_) {
            Q_EMIT searchAsked(queryOf(*charted_, chartedOf_, lengths));
        }
    });
    auto* filter = new FilterLine(*table_, tr("Filter the statistics"), this);
    filter->setMaximumWidth(fontMetrics().averageCharWidth() * 30);
    connect(filter, &QLineEdit::textChanged, rows_, &TableFilter::setText);
    stack_->addWidget(table_);
    stack_->addWidget(tree_);
    connect(views_, &QComboBox::currentIndexChanged, stack_, &QStackedWidget::setCurrentIndex);
    connect(views_, &QComboBox::currentIndexChanged, filter, [filter](int view) { filter->setEnabled(view == 0); });
    auto* splitter = new QSplitter(Qt::Horizontal, this);
    splitter->addWidget(stack_);
    splitter->addWidget(chart_);
    splitter->setSizes({700, 300});
    splitter->setStretchFactor(0, 3);
    splitter->setStretchFactor(1, 1);
    splitter->setChildrenCollapsible(false);
    auto* line = arrange(new QHBoxLayout, {sources_, ranges_, views_, {status_, 1}, filter, export_});
    arrange(new QVBoxLayout(this), {4, 4, 4, 0}, 4, {line, {splitter, 1}});
}

void StatisticsPanel::setDocument(std::shared_ptr<const TraceDocument> document, TimeAxisModel* axis,
                                  std::int32_t step) {
    const bool other = document != document_;
    const bool otherFile = !document || !document_ || document->path != document_->path;
    document_ = std::move(document);
    step_ = step;
    if (axis_ != axis) {
        if (axis_) {
            axis_->disconnect(this);
        }
        axis_ = axis;
        if (axis != nullptr) {
            connect(axis, &TimeAxisModel::windowChanged, this, &StatisticsPanel::restart);
            connect(axis, &TimeAxisModel::rangeChanged, this, &StatisticsPanel::followRange);
        }
    }
    if (other) {
        lengthsJob_.drop();
        items_.reset();
        if (otherFile) {  // a file that grows keeps its rows until they are counted anew
            clear();
        }
        fillSources();
    }
    restart();
}

void StatisticsPanel::fillSources() {
    const QSignalBlocker blocker(sources_);
    const std::optional<Counted> before = sources_->count() > 0 ? std::optional(wanted()) : std::nullopt;
    sources_->clear();
    if (!document_) {
        return;
    }
    for (const Counted each : countable(*document_)) {
        sources_->addItem(nameOf(*document_, each), static_cast<int>(each));
        if (each == before) {
            sources_->setCurrentIndex(sources_->count() - 1);
        }
    }
}

Counted StatisticsPanel::wanted() const {
    return static_cast<Counted>(sources_->currentData().toInt());
}

void StatisticsPanel::pick(const QModelIndex& shown) {
    const std::optional<StatisticsRow> row = model_->rowAt(rows_->mapToSource(shown).row());
    if (row && holdsRows()) {
        choose(row);
        const CountedItem longest = row->longest;
        Q_EMIT picked(longest);
    }
}

TimeRange StatisticsPanel::range() const {
    switch (ranges_->currentIndex()) {
        case step_range:
            if (const StepSpan* span = document_->measured ? document_->measured->step(step_) : nullptr) {
                return span->range();
            }
            return stepRange(*document_, step_);
        case whole_range: return axis_->total();
        case measured_range: return *axis_->range();
        default:
            return {axis_->window().start, axis_->window().start + static_cast<std::int64_t>(axis_->window().length)};
    }
}

bool StatisticsPanel::lacksRange() const {
    return ranges_->currentIndex() == measured_range && !axis_->range();
}

void StatisticsPanel::followRange() {
    const bool measured = axis_->range() && axis_->range()->length() > 0;
    if (measured) {
        ranges_->setCurrentIndex(measured_range);
    } else if (!axis_->range() && ranges_->currentIndex() == measured_range) {
        ranges_->setCurrentIndex(visible_range);
    }
    restart();
    if (measured && sources_->count() > 0) {
        Q_EMIT rangeMeasured();
    }
}

void StatisticsPanel::restart() {
    job_.drop();
    if (isVisible()) {
        rest_->start();
    }
}

TimeRange StatisticsPanel::rangeInStore(Counted counted) const {
    const TimeRange in = range();
    const std::int64_t shift = counted == Counted::simulated_tasks ? simulatedShift(*document_, step_) : 0;
    return {in.start - shift, in.end - shift};
}

void StatisticsPanel::showNothing(const QString& why) {
    status_->setText(why);
    clear();
}

bool StatisticsPanel::holdsRows() const {
    return document_ && axis_ && rowsOf_.lock() == document_ && !lacksRange();
}

void StatisticsPanel::clear() {
    rowsOf_.reset();
    model_->setStatistics({}, counted_);
    calls_->setCalls({});
    export_->setEnabled(false);
    charted_.reset();
    items_.reset();
    choose(std::nullopt);
}

void StatisticsPanel::count() {
    if (!document_ || !axis_ || sources_->count() == 0) {
        showNothing(document_ ? tr("This file holds no tasks, ranges or kernels.")
                              : tr("Open a trace to count its tasks."));
        return;
    }
    if (lacksRange()) {
        showNothing(tr("Shift and drag in a timeline, or R at either end, measures a range."));
        return;
    }
    const Counted wants = wanted();
    status_->setText(tr("%1 of the time axis. Total, self and busy share count the time within it, the others whole "
                        "tasks.")
                         .arg(formatDuration(range().length())));
    job_.start(
        *this,
        [document = document_, wants, in = rangeInStore(wants)](const std::function<bool()>& cancelled) {
            return areaStatistics(*document, wants, in, cancelled);
        },
        [this, wants](AreaStatistics statistics) { take(std::move(statistics), wants); },
        [this](const QString& error) { status_->setText(error); });
}

void StatisticsPanel::take(AreaStatistics statistics, Counted of) {
    std::optional<StatisticsRow> row;
    std::optional<int> number;
    for (std::size_t k = 0; k < statistics.rows.size() && chosen_; ++k) {
        if (isSame(statistics.rows[k], *chosen_)) {
            row = statistics.rows[k];
            number = static_cast<int>(k);
        }
    }
    if (!row && !statistics.rows.empty()) {
        row = statistics.rows.front();
    }
    rowsOf_ = document_;  // another document would have dropped the job
    counted_ = of;
    fills_ = true;
    model_->setStatistics(std::move(statistics.rows), of);
    calls_->setCalls(std::move(statistics.calls));
    tree_->expandToDepth(0);
    if (number) {
        table_->selectRow(rows_->mapFromSource(model_->index(*number, 0)).row());
    }
    fills_ = false;
    export_->setEnabled(model_->rowCount() > 0);
    choose(row);
    Q_EMIT counted();
}

void StatisticsPanel::choose(const std::optional<StatisticsRow>& row) {
    chosen_ = row;
    measureLengths();
}

void StatisticsPanel::measureLengths() {
    lengthsJob_.drop();
    if (!chosen_ || chart_->isHidden()) {
        chart_->setLengths({}, {});
        return;
    }
    if (!holdsRows()) {
        return;  // until the rows are counted anew
    }
    const bool isSearched = counted_ != Counted::simulated_tasks || !document_->measured;
    chart_->setWhyNoPick(isSearched ? QString() : tr("Find looks for measured tasks only."));
    const QString where = chosen_->place ? chosen_->name + QStringLiteral(" · ") + chosen_->placeName : chosen_->name;
    struct Lengths {
        std::shared_ptr<const std::vector<TimeRange>> items;
        std::vector<LengthBin> bins;
    };
    const bool isKnown = items_ && charted_ && isSame(*charted_, *chosen_) && chartedOf_ == counted_;
    lengthsJob_.start(
        *this,
        [document = document_, counted = counted_, row = *chosen_, in = rangeInStore(counted_),
         known = isKnown ? items_ : nullptr](const std::function<bool()>& cancelled) {
            const auto items = known ? known
                                     : std::make_shared<const std::vector<TimeRange>>(
                                           itemsOf(*document, counted, row.number, row.place, cancelled));
            return Lengths{items, lengthsOf(*items, in)};
        },
        [this, where, row = *chosen_, of = counted_](Lengths lengths) {
            charted_ = row;
            chartedOf_ = of;
            items_ = std::move(lengths.items);
            chart_->setLengths(where, std::move(lengths.bins));
            Q_EMIT measured();
        },
        [this](const QString& error) { status_->setText(error); });
}

void StatisticsPanel::resizeEvent(QResizeEvent* event) {
    QWidget::resizeEvent(event);
    const bool hasRoom = width() >= fontMetrics().averageCharWidth() * kLeastWithChart;
    if (hasRoom == chart_->isHidden()) {
        chart_->setVisible(hasRoom);
        measureLengths();
    }
}

void StatisticsPanel::showEvent(QShowEvent* event) {
    QWidget::showEvent(event);
    restart();
}

void StatisticsPanel::exportRows() {
    const QString error = askAndSaveTable(*this, tr("Export the statistics"), tr("statistics.csv"), *rows_);
    if (!error.isEmpty()) {
        Q_EMIT failed(error);
    }
}
}  // namespace pipescope
