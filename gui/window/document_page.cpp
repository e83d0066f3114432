#include "gui/window/document_page.h"

#include "gui/document/headlines.h"
#include "gui/style/elided_label.h"
#include "gui/style/legend.h"
#include "gui/style/message_bar.h"
#include "gui/style/number_format.h"
#include "gui/tables/task_details.h"
#include "gui/timeline/memory_view.h"
#include "gui/timeline/minimap.h"
#include "gui/timeline/timeline_pane.h"
#include "gui/timeline/track_view.h"
#include "gui/window/compare_bar.h"

#include <QCheckBox>
#include <QComboBox>
#include <QFileInfo>
#include <QKeyEvent>
#include <QLabel>
#include <QScrollBar>
#include <QSignalBlocker>
#include <QStackedWidget>
#include <QVBoxLayout>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace pipescope {
namespace {
std::vector<TaskKind> kindsOf(const TraceDocument& document) {
    std::set<TaskKind> kinds;
    for (const auto& store : {document.measured, document.simulated}) {
        if (!store) {
            continue;
        }
        for (const StoredRow& row : store->rows()) {
            if (row.pyramid) {
                kinds.insert(row.pyramid->kinds().begin(), row.pyramid->kinds().end());
                continue;
            }
            for (const std::uint8_t kind : row.kind) {
                kinds.insert(static_cast<TaskKind>(kind));
            }
        }
    }
    return {kinds.begin(), kinds.end()};
}
}  // namespace

DocumentPage::DocumentPage(QString path, QWidget* parent)
    : QWidget(parent), path_(std::move(path)), axis_(new TimeAxisModel(this)) {
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(0);
    messages_ = new MessageBar(this);
    stack_ = new QStackedWidget(this);
    opening_ = new QLabel(tr("Opening %1 …").arg(QFileInfo(path_).fileName()), this);
    opening_->setAlignment(Qt::AlignCenter);
    content_ = createContent();
    stack_->addWidget(opening_);
    stack_->addWidget(content_);
    layout->addWidget(messages_);
    layout->addWidget(stack_, 1);
    connectViews();
    for (auto* box : findChildren<QComboBox*>()) {
        box->installEventFilter(this);
    }
}

bool DocumentPage::eventFilter(QObject* watched, QEvent* event) {
    if (event->type() == QEvent::ShortcutOverride) {
        const auto* press = static_cast<const QKeyEvent*>(event);
        const bool types = press->key() < Qt::Key_Escape;  // letters and digits select an entry
        const bool moves = press->key() >= Qt::Key_Home && press->key() <= Qt::Key_PageDown;
        const bool combination = press->modifiers() & (Qt::ControlModifier | Qt::AltModifier | Qt::MetaModifier);
        if ((types || moves) && !combination) {
            event->accept();
        }
    }
    return QWidget::eventFilter(watched, event);
}

void DocumentPage::connectViews() {
    for (const Source source : {Source::measured, Source::simulated}) {
        TimelineView& each = view(source);
        connect(&each, &TimelineView::picked, this,
                [this, source](std::optional<SliceRef> slice) { select(source, slice); });
        connect(&each, &AxisView::overflowChanged, this, &DocumentPage::syncScrollBars, Qt::QueuedConnection);
        each.setDescription([this, source](SliceRef slice) {
            const std::int32_t step = source == Source::measured ? document_->measured->slice(slice).key.step : step_;
            return toolTipOf(taskFacts(*document_, {source, slice, twinOf(*document_, source, slice, step)}, step),
                             source);
        });
        each.setBubbleDescription([this, source](const BubblePiece& piece) {
            return analysis_ && analysis_->tasks(source) != nullptr ? analysis_->describe(source, piece) : QString();
        });
    }
    connect(memory_, &AxisView::overflowChanged, this, &DocumentPage::syncScrollBars, Qt::QueuedConnection);
    connect(tracks_, &AxisView::overflowChanged, this, &DocumentPage::syncScrollBars, Qt::QueuedConnection);
    QScrollBar* upper = measured_->view().verticalScrollBar();
    QScrollBar* lower = simulated_->view().verticalScrollBar();
    connect(upper, &QScrollBar::valueChanged, this, [this, upper, lower] { scrollAlong(*upper, *lower); });
    connect(lower, &QScrollBar::valueChanged, this, [this, upper, lower] { scrollAlong(*lower, *upper); });
    connect(axis_, &TimeAxisModel::selectionChanged, this, [this] {
        if (const std::optional<TaskSelection>& selection = axis_->selection()) {
            view(selection->source)
                .setAccessibleDescription(spoken(taskFacts(*document_, *selection, step_), selection->source));
        }
        if (analysis_) {
            refreshMarks();
        }
        Q_EMIT selectionChanged();
    });
    connect(compareBar_, &CompareBar::choiceChanged, this, [this] { setChoice(compareBar_->choice()); });
    connect(stepChoice_, &QComboBox::currentIndexChanged, this, [this](int index) {
        if (index >= 0) {
            selectStep(stepChoice_->itemData(index).toInt());
        }
    });
}

void DocumentPage::scrollAlong(const QScrollBar& moved, QScrollBar& other) {
    if (scrolling_) {
        return;  // prevents recursion: this bar moves because the other one did
    }
    scrolling_ = true;
    // Kernels make lanes of one timeline higher than those of the other; otherwise they align.
    const bool scaled = document_ && document_->kernels && moved.maximum() > 0;
    other.setValue(
        scaled ? static_cast<int>(std::lround(static_cast<double>(moved.value()) * other.maximum() / moved.maximum()))
               : moved.value());
    scrolling_ = false;
}

TimelinePane& DocumentPage::pane(Source source) const {
    return source == Source::measured ? *measured_ : *simulated_;
}

TimelineView& DocumentPage::view(Source source) const {
    return pane(source).view();
}

void DocumentPage::focusTimeline() {
    (document_ && !document_->measured ? view(Source::simulated) : view(Source::measured)).setFocus();
}

void DocumentPage::setDocument(std::shared_ptr<const TraceDocument> document, Keep keep) {
    recorded_ = document;
    const std::shared_ptr<const TraceDocument> before = std::exchange(document_, std::move(document));
    // When the first measured tasks of a live trace arrive, shows them, wherever the simulated step was.
    const bool measuredAppears = before != nullptr && !before->measured && document_->measured;
    const bool keeps = keep == Keep::view && before != nullptr && !measuredAppears;
    const std::optional<TaskSelection> selected = axis_->selection();
    const TimeWindow window = axis_->window();
    const std::int64_t origin = axis_->origin();
    analysis_ = nullptr;  // belongs to the previous document
    const bool follows = keeps && atTheEnd();
    axis_->select(std::nullopt);

    const bool hasStep = document_->measured && document_->measured->step(step_) != nullptr;
    step_ = keeps && hasStep ? step_ : typicalStep(*document_);
    view(Source::measured).setStore(document_->measured);
    view(Source::measured).setKernels(document_->kernels);
    view(Source::simulated).setStore(document_->simulated);
    tracks_->setStore(document_->tracks);
    trackPane_->setVisible(document_->tracks != nullptr);
    measured_->setVisible(document_->measured != nullptr);
    simulated_->setTitle({});
    refreshLegend();
    alignGutters();
    fillSteps();
    stack_->setCurrentWidget(content_);
    showNotes();
    refresh();
    axis_->setTotal(wholeRange(*document_, step_));
    if (keeps) {
        axis_->scrollTo(shifted(window, axis_->origin() - origin));
        if (selected) {
            selectAgain(*selected, *before);
        }
    } else {
        axis_->show(stepRange(*document_, step_));
        QMetaObject::invokeMethod(this, &DocumentPage::shareHeight, Qt::QueuedConnection);  // after the docks
    }
    if (follows) {
        scrollToTheEnd();
    }
    syncScrollBars();
    Q_EMIT documentChanged();
}

void DocumentPage::selectAgain(const TaskSelection& selected, const TraceDocument& before) {
    const TaskKey key = before.store(selected.source)->slice(selected.slice).key;
    const TimelineStore* store = document_->store(selected.source);
    const std::optional<SliceRef> slice = store != nullptr ? store->find(key) : std::nullopt;
    if (slice) {
        axis_->select(TaskSelection{selected.source, *slice, twinOf(*document_, selected.source, *slice, step_)});
    }
}

void DocumentPage::refreshLegend() {
    legend_->setKinds(kindsOf(*document_));
}

void DocumentPage::showNotes() {
    QStringList lines = document_->messages();
    if (live_ == Live::following) {
        lines.removeAll(QString::fromUtf8(kNotClosed.data()));  // the badge says so
    }
    if (lines.isEmpty()) {
        messages_->hide();
    } else {
        messages_->showMessage(MessageBar::Kind::note, lines.join(QLatin1Char('\n')));
    }
}

void DocumentPage::refreshNotes() {
    if (document_ && messages_->isVisible()) {
        showNotes();
    }
}

void DocumentPage::fillSteps() {
    const QSignalBlocker blocker(stepChoice_);
    stepChoice_->clear();
    for (const StepSpan& span : stepsOf(*document_)) {
        const Nanoseconds time = !document_->measured && document_->simulation ? expected_step(*document_->simulation)
                                                                               : span.statistics.step_time();
        stepChoice_->addItem(tr("%1 (%2)").arg(span.step).arg(formatDuration(time.count())), span.step);
    }
    stepChoice_->setCurrentIndex(stepChoice_->findData(step_));
    stepChoice_->setEnabled(stepChoice_->count() > 1);
}

void DocumentPage::selectStep(std::int32_t step) {
    if (!document_ || !document_->measured || document_->measured->step(step) == nullptr || step == step_) {
        return;
    }
    // Keeps the visible part at the same position within its step.
    const std::int64_t before = axis_->origin();
    step_ = step;
    {
        const QSignalBlocker blocker(stepChoice_);
        stepChoice_->setCurrentIndex(stepChoice_->findData(step_));
    }
    refresh();
    axis_->show({axis_->window().start + axis_->origin() - before,
                 axis_->window().start + axis_->origin() - before + static_cast<std::int64_t>(axis_->window().length)});
    if (const std::optional<TaskSelection> selection = axis_->selection()) {
        select(selection->source, selection->slice);
    }
    Q_EMIT stepChanged();
}

void DocumentPage::refresh() {
    const StepSpan* span = document_->measured ? document_->measured->step(step_) : nullptr;
    axis_->setOrigin(span != nullptr ? span->range().start : 0);
    summary_->setText(comparisonHeadline(*document_));
    analyse();
}

void DocumentPage::refreshMemory(std::int64_t shift) {
    const TimelineStore* names = storeOfMostLanes(*document_);
    std::vector<Bytes> peaks;
    for (const SimulatedLane& lane :
         document_->simulation ? document_->simulation->lanes : std::vector<SimulatedLane>{}) {
        peaks.push_back(lane.peak_bytes);
    }
    memory_->setScene({names != nullptr ? names->lanes() : std::vector<LaneInfo>{}, document_->measuredMemory.get(),
                       &document_->simulatedMemory, shift, document_->memoryLimits, std::move(peaks)});
    QString limit;
    if (const std::vector<Bytes>& limits = document_->memoryLimits; !limits.empty()) {
        bool shown = false;
        for (std::size_t lane = 0; lane < limits.size(); ++lane) {
            shown = shown || memory_->showsLimit(lane);
        }
        const auto [least, most] = std::minmax_element(limits.begin(), limits.end());
        const QString bytes = *least == *most ? tr("limit of %1 per lane").arg(formatBytes(*least))
                                              : tr("limits of %1 to %2").arg(formatBytes(*least), formatBytes(*most));
        limit = shown ? tr(", red: %1").arg(bytes) : tr("; above the scale: %1").arg(bytes);
    }
    composition_->setVisible(memory_->composed());
    QString legend = tr("area: measured, line: simulated, ▼ peak");
    if (memory_->stacked() && memory_->composed()) {
        legend = tr("stacked from below in this order, line: simulated, ▼ peak");
    }
    memoryLegend_->setVisible(memory_->stacked() && memory_->composed());
    memoryTitle_->setText(tr("<b>MEMORY</b>&nbsp;&nbsp; %1%2").arg(legend, limit));
    memoryPane_->setVisible(memoryShown_ && !memory_->empty());
}

void DocumentPage::setMemoryShown(bool shown) {
    memoryShown_ = shown;
    memoryPane_->setVisible(memoryShown_ && !memory_->empty());
}

void DocumentPage::select(Source source, std::optional<SliceRef> slice) {
    const TimelineStore* store = document_ ? document_->store(source) : nullptr;
    // A list of the previous scenario may refer to a slice that no longer exists.
    const bool there = slice && store != nullptr && slice->row < store->rows().size() &&
                       slice->index < store->rows()[slice->row].start.size();
    if (!there) {
        axis_->select(std::nullopt);
        return;
    }
    if (source == Source::measured) {
        const std::int32_t of = document_->measured->slice(*slice).key.step;
        if (of != step_ && document_->measured->step(of) != nullptr) {
            axis_->select(std::nullopt);  // moves the simulated step here, so that the twin is beside it
            const TimeWindow window = axis_->window();
            selectStep(of);
            axis_->scrollTo(window);
        }
    }
    axis_->select(TaskSelection{source, *slice, twinOf(*document_, source, *slice, step_)});
    view(source).reveal(*slice);
}

}  // namespace pipescope
