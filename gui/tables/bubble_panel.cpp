#include "gui/tables/bubble_panel.h"

#include "gui/style/arrange.h"
#include "gui/style/number_format.h"
#include "gui/style/task_style.h"

#include <QFont>
#include <QGuiApplication>
#include <QHeaderView>
#include <QPainter>
#include <QPalette>
#include <QPixmap>
#include <QSplitter>
#include <QTableView>

#include <algorithm>
#include <utility>

namespace pipescope {
namespace {
/// As the timelines shade the cause.
QVariant swatch(BubbleCause cause) {
    constexpr int kSwatch = 12;
    const TimelineColors colors = timelineColors(QGuiApplication::palette());
    QPixmap pixmap(kSwatch, kSwatch);
    pixmap.fill(colors.bubble);
    QPainter painter(&pixmap);
    painter.fillRect(pixmap.rect(), brushOf(cause, colors));
    return pixmap;
}

QVariant taskOrNull(const std::optional<TaskKey>& task) {
    return task ? QVariant(QString::fromStdString(to_string(*task))) : QVariant::fromValue(nullptr);
}

QVariant boldFont() {
    QFont bold;
    bold.setBold(true);
    return bold;
}
}  // namespace

BubbleTableModel::BubbleTableModel(QObject* parent)
    : RowModel(
          {{translated("Cause"), "cause", Qt::AlignLeft, [](const BubbleRow& r) { return nameOf(r.bubble.cause); },
            [](const BubbleRow& r) { return QString::fromUtf8(to_string(r.bubble.cause).data()); }},
           {translated("Culprit"), "culprit", Qt::AlignLeft, [](const BubbleRow& r) { return r.culprit; },
            [](const BubbleRow& r) { return taskOrNull(r.listed.culprit); }},
           {translated("Lane"), "lane", Qt::AlignLeft,
            [this](const BubbleRow& r) {
                const std::size_t number = r.bubble.lane.index();
                return number < lanes_.size() ? QString::fromStdString(lanes_[number].name) : QString::number(number);
            },
            [](const BubbleRow& r) { return QVariant::fromValue<qlonglong>(r.bubble.lane.value()); }},
           {translated("Timeline"), "timeline", Qt::AlignLeft,
            [this](const BubbleRow& r) {
                return inWords(r.source == Source::measured ? translated("measured") : translated("simulated"));
            }},
           {translated("Start in step"), "start_in_step_ns", Qt::AlignRight,
            [](const BubbleRow& r) { return formatInstant(r.listed.start.count(), r.listed.length.count()); },
            [](const BubbleRow& r) { return QVariant::fromValue<qlonglong>(r.listed.start.count()); }},
           numberColumn<BubbleRow>(
               translated("Length"), "length_ns", [](const BubbleRow& r) { return r.listed.length; }, formatDuration),
           numberColumn<BubbleRow>(
               translated("of lanes' time"), "share", [](const BubbleRow& r) { return r.listed.share; }, formatShare),
           {translated("Root cause"), "root_cause", Qt::AlignLeft,
            [](const BubbleRow& r) { return r.root ? nameOf(*r.root) : QString(); },
            [](const BubbleRow& r) {
                return r.root ? QVariant(QString::fromUtf8(to_string(*r.root).data())) : QVariant::fromValue(nullptr);
            }}},
          parent) {}

void BubbleTableModel::setBubbles(std::vector<BubbleRow> bubbles, std::vector<LaneInfo> lanes) {
    lanes_ = std::move(lanes);
    setRows(std::move(bubbles));
}

QVariant BubbleTableModel::data(const QModelIndex& index, int role) const {
    if (role == Qt::DecorationRole && index.isValid() && index.row() < rowCount()) {
        return index.column() == cause ? swatch(rowOf(index).bubble.cause) : QVariant();
    }
    return RowModel::data(index, role);
}

BubbleSumModel::BubbleSumModel(QObject* parent)
    : RowModel(
          {{translated("Cause"), "cause", Qt::AlignLeft,
            [](const BubbleSumRow& r) { return r.cause ? nameOf(*r.cause) : translated("all causes"); },
            [](const BubbleSumRow& r) {
                return r.cause ? QVariant(QString::fromUtf8(to_string(*r.cause).data())) : QVariant::fromValue(nullptr);
            }},
           optionalColumn<BubbleSumRow>(translated("Measured"), "measured_ns", &BubbleSumRow::measured, formatDuration),
           optionalColumn<BubbleSumRow>(translated("of lanes' time"), "measured_share", &BubbleSumRow::measuredShare,
                                        formatShare),
           optionalColumn<BubbleSumRow>(translated("Simulated"), "simulated_ns", &BubbleSumRow::simulated,
                                        formatDuration),
           optionalColumn<BubbleSumRow>(translated("of lanes' time"), "simulated_share", &BubbleSumRow::simulatedShare,
                                        formatShare)},
          parent) {}

QVariant BubbleSumModel::data(const QModelIndex& index, int role) const {
    const std::optional<BubbleSumRow> row = rowAt(index.row());
    if (row && role == Qt::DecorationRole) {
        return index.column() == 0 && row->cause ? swatch(*row->cause) : QVariant();
    }
    if (row && role == Qt::FontRole && !row->cause) {
        return boldFont();
    }
    return RowModel::data(index, role);
}

BubblePanel::BubblePanel(QWidget* parent)
    : QWidget(parent),
      model_(new BubbleTableModel(this)),
      sumModel_(new BubbleSumModel(this)),
      list_(new FilteredTable(*model_, tr("Bubbles"), tr("Open a trace to see why its lanes were idle."), this)),
      sums_(named(new QTableView(this), tr("Bubbles by cause"))) {
    // Causes and roots are short and few; a culprit's name may be cut.
    list_->table().horizontalHeader()->setSectionResizeMode(BubbleTableModel::cause, QHeaderView::ResizeToContents);
    list_->table().horizontalHeader()->setSectionResizeMode(BubbleTableModel::culprit, QHeaderView::Stretch);
    list_->table().horizontalHeader()->setSectionResizeMode(BubbleTableModel::root, QHeaderView::ResizeToContents);
    sums_->setModel(sumModel_);
    makeCompact(*sums_);
    sums_->horizontalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
    auto* splitter = new QSplitter(Qt::Horizontal, this);
    splitter->addWidget(sums_);
    splitter->addWidget(list_);
    splitter->setStretchFactor(0, 2);
    splitter->setStretchFactor(1, 3);
    splitter->setChildrenCollapsible(false);
    arrange(new QVBoxLayout(this), {0, 0, 0, 0}, 0, {splitter});
    connect(list_, &FilteredTable::picked, this, [this](const QModelIndex& index) {
        if (const std::optional<BubbleRow> row = model_->rowAt(index.row())) {
            Q_EMIT picked(row->source, row->bubble);
        }
    });
    connect(sums_, &QTableView::clicked, this, &BubblePanel::filterBy);
    connect(sums_, &QTableView::activated, this, &BubblePanel::filterBy);
}

void BubblePanel::filterBy(const QModelIndex& sum) {
    const std::optional<BubbleSumRow> row = sumModel_->rowAt(sum.row());
    listCause(row ? row->cause : std::nullopt);
}

void BubblePanel::listCause(const std::optional<BubbleCause>& cause) {
    list_->line().setText(cause ? nameOf(*cause) : QString());
}

void BubblePanel::listRoot(RootCause root) {
    list_->line().setText(nameOf(root));
}

void BubblePanel::setAnalysis(const StepAnalysis* analysis, const TraceDocument* document, std::int32_t step) {
    const QString whyNoMeasured = document != nullptr ? document->whyNoBubble(step) : QString();
    model_->setTwoRuns(document != nullptr && document->baseline);
    sumModel_->setTwoRuns(document != nullptr && document->baseline);
    std::vector<BubbleRow> rows;
    std::vector<BubbleSumRow> sums;
    std::optional<BubbleSums> measured;
    std::optional<BubbleSums> simulated;
    for (const Source source : {Source::measured, Source::simulated}) {
        const StepGraph* tasks = analysis != nullptr ? analysis->tasks(source) : nullptr;
        if (tasks == nullptr || !document->whyNoBubble(source, step).isEmpty()) {
            continue;  // perhaps there is no document
        }
        for (const Bubble& each : analysis->bubbles(source)) {
            const StepTaskIndex task = analysis->culpritOf(source, each);
            const SliceRef* culprit = task == kNoTask ? nullptr : &tasks->task(task).slice;
            rows.push_back({source, each, pipescope::listed(each, *tasks),
                            culprit == nullptr ? QString() : taskName(document->store(source)->shownKey(*culprit)),
                            analysis->rootOf(source, each)});
        }
        (source == Source::measured ? measured : simulated) = sum_bubbles(*tasks, analysis->bubbles(source));
    }
    std::stable_sort(rows.begin(), rows.end(),
                     [](const BubbleRow& a, const BubbleRow& b) { return a.bubble.length() > b.bubble.length(); });
    BubbleSumRow all;
    const auto add = [](const std::optional<BubbleSums>& from, BubbleCause cause, std::optional<std::int64_t>& ns,
                        std::optional<double>& share, std::optional<std::int64_t>& sum) {
        if (from) {
            ns = from->of(cause);
            share = from->share(cause);
            sum = sum.value_or(0) + *ns;
        }
    };
    for (int number = 0; number < kNumBubbleCauses; ++number) {
        BubbleSumRow row;
        row.cause = static_cast<BubbleCause>(number);
        add(measured, *row.cause, row.measured, row.measuredShare, all.measured);
        add(simulated, *row.cause, row.simulated, row.simulatedShare, all.simulated);
        if (row.measured.value_or(0) > 0 || row.simulated.value_or(0) > 0) {
            sums.push_back(row);
        }
    }
    if (measured || simulated) {
        all.measuredShare = measured ? std::optional(measured->total()) : std::nullopt;
        all.simulatedShare = simulated ? std::optional(simulated->total()) : std::nullopt;
        sums.insert(sums.begin(), all);
    }
    const TimelineStore* names = document != nullptr ? storeOfMostLanes(*document) : nullptr;
    const bool knowsRoots = std::ranges::any_of(rows, [](const BubbleRow& row) { return row.root.has_value(); });
    model_->setBubbles(std::move(rows), names != nullptr ? names->lanes() : std::vector<LaneInfo>{});
    sumModel_->setRows(std::move(sums));
    sums_->setVisible(sumModel_->rowCount() > 0);
    // One timeline needs only its own columns.
    const bool both = measured && simulated;
    for (const int column : {1, 2}) {
        sums_->setColumnHidden(column, !measured && simulated);
        sums_->setColumnHidden(column + 2, measured && !simulated);
    }
    list_->setColumnHidden(BubbleTableModel::root, !knowsRoots);
    list_->setColumnHidden(BubbleTableModel::timeline, !both && (measured || simulated));
    list_->setEmptyText(document == nullptr        ? tr("Open a trace to see why its lanes were idle.")
                        : !whyNoMeasured.isEmpty() ? noMeasuredBubbles(*document, whyNoMeasured)
                        : measured || simulated    ? tr("No lane was idle in this step.")
                                                   : tr("No causes of bubbles: this step has no tasks of a pipeline, "
                                                           "or too many."));
}

void BubblePanel::select(const std::optional<PartSelection>& part) {
    list_->table().clearSelection();
    if (!part || part->kind != PartSelection::Kind::bubble) {
        return;
    }
    for (int row = 0; row < model_->rowCount(); ++row) {
        const BubbleRow each = *model_->rowAt(row);
        if (each.source == part->source && each.bubble == part->bubble) {
            const QModelIndex shown = list_->rows().mapFromSource(model_->index(row, 0));
            if (shown.isValid()) {
                list_->table().setCurrentIndex(shown);
                list_->table().scrollTo(shown);
            }
            return;
        }
    }
}
}  // namespace pipescope
