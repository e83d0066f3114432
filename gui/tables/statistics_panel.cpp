#include "gui/tables/statistics_panel.h"

#include "gui/style/arrange.h"
#include "gui/style/elided_label.h"
#include "gui/style/number_format.h"
#include "gui/tables/filtered_table.h"
#include "gui/tables/table_export.h"
#include "gui/tables/table_models.h"

#include <QComboBox>
#include <QPushButton>
#include <QSignalBlocker>
#include <QTableView>

namespace pipescope {
namespace {
constexpr int kRestMilliseconds = 120;
}  // namespace

StatisticsPanel::StatisticsPanel(QWidget* parent)
    : QWidget(parent),
      rest_(new RestedWork(kRestMilliseconds, *this, [this] { count(); })),
      sources_(named(new QComboBox(this), tr("Timeline counted"))),
      ranges_(named(new QComboBox(this), tr("Range counted"))),
      status_(new ElidedLabel(this)),
      export_(new QPushButton(tr("&Export…"), this)),
      model_(new StatisticsModel(this)),
      rows_(new TableFilter(this)),
      table_(named(new QTableView(this), tr("Statistics by kind and lane"),
                   tr("Click a row to go to the longest of its tasks"))) {
    ranges_->addItems({tr("Visible range"), tr("Chosen step"), tr("Whole trace"), tr("Measured range")});
    export_->setToolTip(tr("Write the statistics as CSV or JSON"));
    connect(sources_, &QComboBox::currentIndexChanged, this, &StatisticsPanel::restart);
    connect(ranges_, &QComboBox::currentIndexChanged, this, &StatisticsPanel::restart);
    connect(export_, &QPushButton::clicked, this, &StatisticsPanel::exportRows);
    rows_->setSourceModel(model_);
    table_->setModel(rows_);
    styleTable(*table_);
    makeSortable(*table_);
    connect(table_, &QTableView::clicked, this, &StatisticsPanel::pick);
    connect(table_, &QTableView::activated, this, &StatisticsPanel::pick);
    auto* filter = new FilterLine(*table_, tr("Filter the statistics"), this);
    filter->setMaximumWidth(fontMetrics().averageCharWidth() * 30);
    connect(filter, &QLineEdit::textChanged, rows_, &TableFilter::setText);
    auto* line = arrange(new QHBoxLayout, {sources_, ranges_, {status_, 1}, filter, export_});
    arrange(new QVBoxLayout(this), {4, 4, 4, 0}, 4, {line, {table_, 1}});
}

void StatisticsPanel::setDocument(std::shared_ptr<const TraceDocument> document, TimeAxisModel* axis,
                                  std::int32_t step) {
    const bool other = document != document_;
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
        fillSources();
    }
    restart();
}

void StatisticsPanel::fillSources() {
    const QSignalBlocker blocker(sources_);
    sources_->clear();
    if (document_ && document_->measured) {
        sources_->addItem(inWordsOf(*document_, tr("Measured")), static_cast<int>(Source::measured));
    }
    if (document_ && document_->simulated) {
        sources_->addItem(inWordsOf(*document_, tr("Simulated")), static_cast<int>(Source::simulated));
    }
}

Source StatisticsPanel::source() const {
    return static_cast<Source>(sources_->currentData().toInt());
}

void StatisticsPanel::pick(const QModelIndex& shown) {
    const std::optional<KindStatistics> row = model_->rowAt(rows_->mapToSource(shown).row());
    if (row && sources_->count() > 0) {
        Q_EMIT picked(source(), row->longest);
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

void StatisticsPanel::count() {
    if (!document_ || !axis_ || sources_->count() == 0) {
        status_->setText(document_ ? tr("This file holds no tasks of a pipeline.")
                                   : tr("Open a trace to count its tasks."));
        model_->setStatistics({}, {});
        export_->setEnabled(false);
        return;
    }
    if (lacksRange()) {
        status_->setText(tr("Shift and drag in a timeline, or R at either end, measures a range."));
        model_->setStatistics({}, {});
        export_->setEnabled(false);
        return;
    }
    const Source source = this->source();
    const std::shared_ptr<const TimelineStore> store =
        source == Source::measured ? document_->measured : document_->simulated;
    TimeRange in = range();
    status_->setText(tr("%1 of the time axis. Total and busy share count the time within it, the others whole tasks.")
                         .arg(formatDuration(in.length())));
    if (source == Source::simulated) {
        const std::int64_t shift = simulatedShift(*document_, step_);
        in = {in.start - shift, in.end - shift};
    }
    job_.start(
        *this, [store, in](const std::function<bool()>& cancelled) { return taskStatistics(*store, in, cancelled); },
        [this, store](std::vector<KindStatistics> statistics) {
            model_->setStatistics(std::move(statistics), store->lanes());
            export_->setEnabled(model_->rowCount() > 0);
            Q_EMIT counted();
        },
        [this](const QString& error) { status_->setText(error); });
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
