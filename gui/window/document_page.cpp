#include "gui/window/document_page.h"

#include "base/printable.h"
#include "gui/document/bubble_table.h"
#include "gui/document/document_verdict.h"
#include "gui/document/headlines.h"
#include "gui/document/link_tiers.h"
#include "gui/style/arrange.h"
#include "gui/style/elided_label.h"
#include "gui/style/legend.h"
#include "gui/style/message_bar.h"
#include "gui/style/number_format.h"
#include "gui/tables/selection_facts.h"
#include "gui/tables/task_details.h"
#include "gui/timeline/minimap.h"
#include "gui/timeline/timeline_pane.h"
#include "gui/timeline/track_view.h"
#include "gui/window/answer_bar.h"
#include "gui/window/compare_bar.h"
#include "gui/window/memory_pane.h"
#include "gui/window/step_box.h"
#include "gui/window/step_strip.h"

#include <QFileInfo>
#include <QInputDialog>
#include <QLabel>
#include <QPushButton>
#include <QStackedWidget>

#include <algorithm>
#include <array>
#include <bitset>
#include <cstdio>
#include <limits>
#include <span>
#include <utility>

namespace pipescope {
namespace {
std::vector<TaskKind> kindsOf(const TraceDocument& document) {
    KindSet drawn;
    for (const auto& store : {document.measured, document.simulated}) {
        for (const StoredRow& row : store ? std::span(store->rows()) : std::span<const StoredRow>()) {
            drawn |= row.drawn;
        }
    }
    std::vector<TaskKind> inOrder;
    for (std::size_t kind = 0; kind < drawn.size(); ++kind) {
        if (drawn.test(kind)) {
            inOrder.push_back(static_cast<TaskKind>(kind));
        }
    }
    std::ranges::stable_sort(inOrder, {}, keyKindOf);  // both halves of a backward side by side
    return inOrder;
}

/// All but one are hidden, or none, if they are already.
template <std::size_t size>
std::bitset<size> only(std::size_t one, const std::bitset<size>& before) {
    std::bitset<size> others;
    others.set().reset(one);
    return others == before ? std::bitset<size>() : others;
}

/// `shown`: the timelines on screen.
std::vector<LegendEntry> causeEntries(const StepAnalysis& analysis, const std::vector<Source>& shown,
                                      const std::bitset<kNumBubbleCauses>& hidden, const TimelineColors& colors) {
    std::array<bool, kNumBubbleCauses> occurs{};
    for (const Source source : shown) {
        for (const Bubble& piece : analysis.bubbles(source)) {
            occurs[static_cast<std::size_t>(piece.cause)] = true;
        }
    }
    std::vector<LegendEntry> entries;
    for (int cause = 0; cause < kNumBubbleCauses; ++cause) {
        const auto each = static_cast<BubbleCause>(cause);
        if (occurs[static_cast<std::size_t>(cause)] && !is_work(each)) {  // a task's bar shows itself
            entries.push_back({colors.bubble, brushOf(each, colors), nameOf(each), cause,
                               hidden.test(static_cast<std::size_t>(cause))});
        }
    }
    return entries;
}

/// True if the marks compare all tasks of the store.
bool comparesAll(const TimelineMarks& marks, const TimelineStore& store) {
    std::size_t rest = 0;
    for (const StoredRow& row : store.rows()) {
        rest += row.copies ? 0 : row.start.size();
    }
    for (const TaskPair& pair : marks.differences) {
        rest -= store.rows()[pair.measured.row].copies ? 0 : 1;
    }
    return rest == 0;
}

/// `whyNone`: why no task is compared; empty if some are.
std::vector<LegendEntry> latenessEntries(const TimelineMarks& marks, const TraceDocument& shown, const QString& whyNone,
                                         const TimelineColors& colors) {
    std::vector<LegendEntry> entries;
    const std::int64_t scale = marks.differenceScale;
    const std::bitset<kNumLateness> occurs = latenessIn(marks.differences, scale);
    const bool twoRuns = shown.baseline != nullptr;
    for (int i = 0; i < kNumLateness && whyNone.isEmpty(); ++i) {
        const auto lateness = static_cast<Lateness>(i);
        if (!occurs.test(static_cast<std::size_t>(i))) {
            continue;
        }
        const LatenessStyle style = styleOf(lateness, colors);
        const bool plain = style.pattern == Qt::SolidPattern;
        entries.push_back({style.color, plain ? QBrush(Qt::NoBrush) : QBrush(inkOn(style.color), style.pattern),
                           describe(lateness, scale, twoRuns), -1, false, explainLateness(twoRuns)});
    }
    if (comparesAll(marks, *shown.measured)) {
        return entries;
    }
    entries.push_back({styleOf(TaskKind::forward).color, QBrush(veilOf(colors)),
                       whyNone.isEmpty() ? DocumentPage::tr("faint: other steps, and tasks without a twin")
                                         : DocumentPage::tr("faint: tasks are not compared: %1").arg(whyNone)});
    return entries;
}
}  // namespace

LiveBadge::LiveBadge(QWidget* parent) : QToolButton(parent) {
    setAccessibleName(tr("Follow the recording"));
    setCheckable(true);
    setChecked(true);
    hide();
}

void LiveBadge::setState(State state) {
    state_ = state;
    setVisible(state != State::no);
    setEnabled(state == State::following);
    if (state == State::following) {
        setText(tr("● Live"));
        setToolTip(
            tr("The trace is being written. While this is pressed, the view follows new data if its right end "
               "is visible."));
        setAccessibleName(tr("Follow the live trace"));
    } else if (state == State::ended) {
        setText(tr("■ Ended"));
        setToolTip(tr("The recording ended; all of it is shown."));
        setAccessibleName(tr("The recording ended"));
    }
}

DocumentPage::DocumentPage(const QStringList& files, QWidget* parent)
    : QWidget(parent),
      files_(std::make_shared<ViewedFiles>(files)),
      model_(new PageModel(this)),
      answer_(new AnswerBar(this)),
      messages_(new MessageBar(this)),
      stack_(new QStackedWidget(this)),
      opening_(new QLabel(this)),
      content_(new QWidget(this)),
      top_(new QWidget(content_)),
      stepLabel_(new QLabel(tr("&Step"), top_)),
      stepBox_(new StepBox(top_)),
      summary_(new ElidedLabel(top_)),
      compareBar_(new CompareBar(top_)),
      live_(new LiveBadge(top_)),
      legend_(new Legend(content_)),
      stepStrip_(new StepStrip(content_)),
      minimap_(new Minimap(axis(), content_)),
      views_(new TimelineStack(axis(), content_)),
      navigation_(*model_, *views_),
      lanes_(*model_, *views_),
      notes_(new PageNotes(axis(), this)),
      tracks_(new PageTracks([this] { return queried(); }, this)) {
    fillTop();
    arrange(new QVBoxLayout(content_), {0, 0, 0, 0}, 0, {top_, legend_, stepStrip_, minimap_, {views_, 1}});
    stack_->addWidget(createOpening());
    stack_->addWidget(content_);
    arrange(new QVBoxLayout(this), {0, 0, 0, 0}, 0, {answer_, messages_, {stack_, 1}});
    answer_->hide();  // until the file is read
    connect(&answer_->messagesButton(), &QToolButton::toggled, messages_, &QWidget::setVisible);
    connect(messages_, &MessageBar::closed, &answer_->messagesButton(), [this] {
        const QSignalBlocker blocker(answer_->messagesButton());
        answer_->messagesButton().setChecked(false);
    });
    connectModel();
    connectViews();
}

QWidget* DocumentPage::createOpening() {
    auto* parts = new QWidget(this);
    auto* cancel = named(new QPushButton(tr("&Cancel"), parts), tr("Do not open this file"));
    connect(cancel, &QPushButton::clicked, this, &DocumentPage::openingCancelled, Qt::QueuedConnection);
    opening_->setAlignment(Qt::AlignCenter);
    opening_->setTextFormat(Qt::PlainText);
    opening_->setWordWrap(true);
    showOpening(0);
    auto* layout = arrange(new QVBoxLayout(parts), {16, 16, 16, 16}, -1, {{nullptr, 1}, opening_});
    layout->addWidget(cancel, 0, Qt::AlignHCenter);
    layout->addStretch(1);
    return parts;
}

void DocumentPage::fillTop() {
    auto* line = new QHBoxLayout(top_);
    line->setContentsMargins(8, 4, 8, 2);
    stepLabel_->setBuddy(stepBox_);
    line->addWidget(stepLabel_);
    line->addWidget(stepBox_);
    line->addSpacing(12);
    line->addWidget(summary_, 1);
    line->addWidget(compareBar_);
    line->addWidget(live_);
}

void DocumentPage::connectModel() {
    connect(model_, &PageModel::documentReplaced, this, &DocumentPage::showDocument);
    connect(model_, &PageModel::simulatedReplaced, this, &DocumentPage::showSimulated);
    connect(model_, &PageModel::simulatedTitled, &views_->pane(Source::simulated), &TimelinePane::setTitle);
    connect(model_, &PageModel::analysed, this, [this] {
        if (!document()->measured) {
            fillSteps();  // their times are those of the scenario
        }
        summary_->setText(comparisonHeadline(*document()), shorterHeadlines(*document()));
        compareBar_->setComparable(document()->measured && document()->simulated);
        refreshMarks();
    });
    connect(model_, &PageModel::choiceChanged, this, [this] {
        compareBar_->setChoice(model_->choice());
        refreshMarks();
    });
    connect(model_, &PageModel::arrangementChanged, this, [this] { views_->setArrangement(model_->arrangement()); });
    connect(model_, &PageModel::modeChanged, this, &DocumentPage::shareHeightLater);
    connect(model_, &PageModel::stepChanged, this, [this] {
        stepBox_->setStep(model_->step());
        stepStrip_->setStep(model_->step());
    });
    connect(model_, &PageModel::chosen, this, &DocumentPage::revealSelection);
    connect(&axis(), &TimeAxisModel::selectionChanged, this, &DocumentPage::showSelection);
    connect(notes_, &PageNotes::failed, this, &DocumentPage::setNoteTrouble);
    connect(notes_, &PageNotes::saved, this, [this] { setNoteTrouble({}); });
    connect(tracks_, &PageTracks::failed, this, &DocumentPage::setNoteTrouble);
    connect(tracks_, &PageTracks::saved, this, [this] { setNoteTrouble({}); });
    connect(tracks_, &PageTracks::changed, this, [this] {
        model_->setDocument(tracks_->added(read_), live_->follows());
        shareHeightLater();
    });
}

void DocumentPage::connectViews() {
    for (const Source source : {Source::measured, Source::simulated}) {
        TimelineView& each = views_->view(source);
        connect(&each, &TimelineView::picked, this, [this, source](std::optional<SliceRef> slice) {
            model_->select(source, slice);
            tellPicked();
        });
        connect(&each, &TimelineView::gapPicked, this, [this, source](LaneId lane, std::int64_t time) {
            model_->selectBubbleAt(source, lane, time);
            tellPicked();
        });
        connect(&each, &TimelineView::lanePicked, this, [this, source](LaneId lane, bool links, bool compares) {
            const std::optional<PartSelection>& part = axis().part();
            if (compares && part && part->isLane() && part->lane != lane) {
                model_->selectLane(part->source, part->lane, false, lane);
            } else {
                model_->selectLane(source, lane, links);
            }
            tellPicked();
        });
        connect(&each, &TimelineView::laneDropped, this, [this](LaneId lane, LaneId place) {
            model_->setArrangement(withLaneAt(model_->arrangement(), model_->lanes(), lane, place));
        });
        connect(&each, &TimelineView::groupPicked, this,
                [this](const QString& name) { lanes_.toggleGroup(name.toStdString()); });
        connect(&each, &AxisView::rowHeightWanted, this, [this](int by) { lanes_.changeHeight(by); });
        each.setDescription([this, source](SliceRef slice) {
            const TraceDocument& shown = *document();
            const std::int32_t step =
                source == Source::measured ? shown.measured->slice(slice).key.step : model_->step();
            return toolTipOf(taskFacts(shown, {source, slice, twinOf(shown, source, slice, step)}, step, &axis()));
        });
        each.setBubbleDescription([this, source](const Bubble& piece) {
            const StepAnalysis* analysis = model_->analysis();
            return analysis != nullptr && analysis->tasks(source) != nullptr ? analysis->describe(source, piece)
                                                                             : QString();
        });
    }
    connect(&views_->tracks(), &TrackView::picked, this, [this](const std::optional<SliceRef>& range) {
        model_->selectRange(range);
        tellPicked();
    });
    connect(&views_->view(Source::simulated), &TimelineView::taskDropped, model_, &PageModel::moveRequested);
    connect(compareBar_, &CompareBar::choiceChanged, this, [this] {
        MarkChoice choice = compareBar_->choice();
        choice.hiddenKinds = model_->choice().hiddenKinds;
        choice.hiddenCauses = model_->choice().hiddenCauses;
        model_->setChoice(choice);
    });
    legend_->setClickable();
    connect(legend_, &Legend::kindClicked, this, [this](TaskKind kind, bool alone) {
        MarkChoice choice = model_->choice();
        const auto index = static_cast<std::size_t>(kind);
        choice.hiddenKinds = alone ? only(index, choice.hiddenKinds) : choice.hiddenKinds.flip(index);
        model_->setChoice(choice);
    });
    connect(legend_, &Legend::entryClicked, this, [this](int cause, bool alone) {
        MarkChoice choice = model_->choice();
        const auto index = static_cast<std::size_t>(cause);
        choice.hiddenCauses = alone ? only(index, choice.hiddenCauses) : choice.hiddenCauses.flip(index);
        model_->setChoice(choice);
    });
    connect(stepBox_, &StepBox::picked, model_, &PageModel::selectStep);
    connect(stepStrip_, &StepStrip::picked, model_, &PageModel::selectStep);
}

void DocumentPage::changeEvent(QEvent* event) {
    QWidget::changeEvent(event);
    if (event->type() == QEvent::PaletteChange) {
        refreshMarks();  // the legend's swatches use the theme's background
    }
}

void DocumentPage::resizeEvent(QResizeEvent* event) {
    QWidget::resizeEvent(event);
    giveWay();
    if (!views_->isSizedByUser()) {
        shareHeightLater();
    }
}

int DocumentPage::leastHeight() const {
    return answer_->heightOfLines(1) + top_->sizeHint().height() + views_->readableHeight();
}

int DocumentPage::wholeHeight() const {
    const auto strip = stepStrip_->isWanted() ? stepStrip_->sizeHint().height() : 0;
    const auto memory = views_->memory().isWanted() ? views_->memory().minimumSizeHint().height() : 0;
    return leastHeight() + legend_->heightOfLines(1) + strip + minimap_->sizeHint().height() + memory;
}

void DocumentPage::giveWay() {
    int rest = height() - leastHeight();
    const auto hasRoom = [&rest](int wanted) {
        const bool fits = wanted <= rest;
        rest -= fits ? wanted : 0;
        return fits;
    };
    const bool hasTasks = document() && !hasOnlyTracks(*document());
    legend_->setVisible(hasTasks && hasRoom(legend_->heightOfLines(1)));
    stepStrip_->setRoom(!stepStrip_->isWanted() || hasRoom(stepStrip_->sizeHint().height()));
    minimap_->setVisible(hasRoom(minimap_->sizeHint().height()));
    MemoryPane& memory = views_->memory();
    memory.setRoom(!memory.isWanted() || hasRoom(memory.minimumSizeHint().height()));
    answer_->setMostLines(hasRoom(answer_->heightOfLines(2) - answer_->heightOfLines(1)) ? 2 : 1);
    const int moreLines = legend_->heightOfAll(width()) - legend_->heightOfLines(1);
    const bool showsAll = moreLines <= rest - views_->moreForWholeLanes();
    legend_->setMostLines(showsAll ? std::numeric_limits<int>::max() : 1);
}

void DocumentPage::focusTimeline() {
    if (document() && !document()->measured && !document()->simulated) {
        views_->tracks().setFocus();
        return;
    }
    views_->view(document() && !document()->measured ? Source::simulated : Source::measured).setFocus();
}

void DocumentPage::askForNote() {
    const bool isMeasured = axis().range() && axis().range()->length() > 0;
    const std::optional<TimeRange> range = isMeasured ? axis().range() : navigation_.selectedRange();
    if (!document() || !range || range->length() == 0) {
        messages_->showMessage(
            MessageBar::Kind::note,
            tr("A note needs a range: press R at either end, or drag with Shift; or select a task."));
        return;
    }
    auto* dialog = new QInputDialog(this);
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    dialog->setWindowTitle(tr("Annotate a range"));
    dialog->setLabelText(tr("Note on %1, from %2 after the start of the step:")
                             .arg(formatDuration(range->length()), formatDuration(range->start - axis().origin())));
    connect(dialog, &QInputDialog::textValueSelected, this,
            [this, range](const QString& text) { notes_->annotate(*range, text.trimmed()); });
    dialog->open();
}

void DocumentPage::askForTrack(const QString& sql) {
    auto* dialog = new QInputDialog(this);
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    dialog->setWindowTitle(tr("A track of your own"));
    dialog->setLabelText(tr("Name of the track; one of this name is replaced:"));
    dialog->setTextValue(tr("track %1").arg(tracks_->names().size() + 1));
    connect(dialog, &QInputDialog::textValueSelected, this, [this, sql](const QString& text) {
        if (const QString name = text.simplified(); !name.isEmpty()) {
            tracks_->add({name, sql});
        }
    });
    dialog->open();
}

PageTracks::Queried DocumentPage::queried() const {
    return {[files = files_] { return files->database(); },
            [document = read_, step = model_->step()](const std::string& sql, const std::function<bool()>& cancelled) {
                return readsBubbles(sql) ? std::vector<SqlTable>{bubbleTable(*document, step, cancelled)}
                                         : std::vector<SqlTable>{};
            }};
}

void DocumentPage::loadNotes(const QString& trace) {
    notes_->load(trace);
    tracks_->load(trace);
}

void DocumentPage::setDocument(std::shared_ptr<const TraceDocument> document) {
    read_ = std::move(document);
    if (!std::exchange(notesRead_, true)) {
        QMetaObject::invokeMethod(
            notes_, [this] { loadNotes(path()); }, Qt::QueuedConnection);
    } else if (read_->complete && live_->state() != LiveBadge::State::following) {
        tracks_->refresh();
    }
    if (!model_->setDocument(tracks_->added(read_), live_->follows())) {
        shareHeightLater();
    }
}

void DocumentPage::shareHeightLater() {
    if (document()) {  // once everything else, such as the docks, has its size
        QMetaObject::invokeMethod(views_, &TimelineStack::shareHeight, Qt::QueuedConnection);
    }
}

void DocumentPage::showDocument() {
    views_->setMeasured(*document());
    showSimulated();
    fillSteps();
    const bool hasTimeline = !hasOnlyTracks(*document());
    compareBar_->setVisible(hasTimeline);
    giveWay();
    stepLabel_->setVisible(hasTimeline || !document()->markedSteps.empty());
    stepBox_->setVisible(stepLabel_->isVisibleTo(top_));
    stack_->setCurrentWidget(content_);
    answer_->show();
    answer(model_->recorded());
    showNotes();
}

void DocumentPage::answer(const std::shared_ptr<const TraceDocument>& document) {
    if (!document || !document->complete || document == judged_ || judging_.isRunning()) {
        return;  // a part of the file, or the answer about an earlier part, which a growing file must not drop, follows
    }
    judged_ = document;
    judging_.start(
        *this,
        [document](const std::function<bool()>& cancelled) {
            return std::make_shared<const RunVerdict>(verdictOf(*document, cancelled));
        },
        [this](std::shared_ptr<const RunVerdict> verdict) {
            answer_->setVerdict(std::move(verdict));
            answer(model_->recorded());
        },
        [this](const QString& error) {
            answer_->setVerdict(std::make_shared<const RunVerdict>(unknown_idle(error.toStdString())));
        });
}

void DocumentPage::showSimulated() {
    if (shownBaseline_ != document()->baseline) {
        shownBaseline_ = document()->baseline;
        const bool twoRuns = shownBaseline_ != nullptr;
        views_->pane(Source::measured).setTitle(twoRuns ? tr("AFTER") : QString());
        views_->view(Source::measured).setAccessibleName(twoRuns ? tr("Timeline after") : tr("Measured timeline"));
        views_->view(Source::simulated).setAccessibleName(twoRuns ? tr("Timeline before") : tr("Simulated timeline"));
        showNotes();
    }
    views_->setSimulated(*document());
    minimap_->setGutter(views_->gutter());
    stepStrip_->setGutter(views_->gutter());
    legend_->setKinds(kindsOf(*document()));
}

void DocumentPage::showOpening(int percent) {
    const QString name = QFileInfo(path()).fileName();
    opening_->setText(percent > 0 ? tr("Opening %1 … %2 %").arg(name).arg(percent) : tr("Opening %1 …").arg(name));
}

void DocumentPage::showWaiting() {
    opening_->setText(tr("%1 is being recorded, but has no tasks yet.\nIt is shown as soon as the first step starts.")
                          .arg(QFileInfo(path()).fileName()));
}

void DocumentPage::setLive(LiveBadge::State state) {
    live_->setState(state);
    refreshNotes();
}

void DocumentPage::setNoteTrouble(const QString& text) {
    if (text.isEmpty() && noteTrouble_.isEmpty()) {
        return;
    }
    noteTrouble_ = text;
    if (!text.isEmpty()) {
        std::fprintf(stderr, "pipescope-gui: %s\n", printable(text.toStdString()).c_str());
    }
    showNotes();
}

void DocumentPage::showNotes() {
    const bool isLive = live_->state() == LiveBadge::State::following;  // which the badge says
    QStringList lines = document()->messages({leavesOutRemarks_, isLive});
    if (!noteTrouble_.isEmpty()) {
        lines.prepend(noteTrouble_);  // somebody's words would be lost
    }
    const bool failed = !noteTrouble_.isEmpty();
    answer_->setMessages(lines.size(), failed);
    const bool shown = failed || answer_->messagesButton().isChecked();
    if (lines.isEmpty()) {
        messages_->hide();
        return;
    }
    messages_->showMessage(failed ? MessageBar::Kind::error : MessageBar::Kind::note, lines.join(QLatin1Char('\n')));
    const QSignalBlocker blocker(answer_->messagesButton());
    answer_->messagesButton().setChecked(shown);
    messages_->setVisible(shown);
}

void DocumentPage::leaveOutRemarks() {
    leavesOutRemarks_ = true;
    showNotes();
}

void DocumentPage::refreshNotes() {
    if (document()) {
        showNotes();
    }
}

void DocumentPage::fillSteps() {
    const auto history = std::make_shared<const StepHistory>(stepHistory(*document()));
    stepBox_->setHistory(history);
    stepBox_->setStep(model_->step());
    stepStrip_->setHistory(history);
    stepStrip_->setStep(model_->step());
}

void DocumentPage::revealSelection() {
    if (const std::optional<TaskSelection>& task = axis().selection()) {
        views_->view(task->source).reveal(task->slice);
    } else if (const std::optional<PartSelection>& part = axis().part(); part && !part->isLane()) {
        part->kind == PartSelection::Kind::range ? views_->tracks().revealRow(part->range.row)
                                                 : views_->view(part->source).revealLane(part->lane);
    }
}

void DocumentPage::showSelection() {
    if (const std::optional<TaskSelection>& selection = axis().selection()) {
        views_->view(selection->source)
            .setAccessibleDescription(spoken(taskFacts(*document(), *selection, model_->step())));
    } else if (const std::optional<PartSelection>& part = axis().part()) {
        if (const StepAnalysis* analysis = model_->analysis(); analysis != nullptr) {
            const bool ofTrack = part->kind == PartSelection::Kind::range;
            QWidget& view = ofTrack ? static_cast<QWidget&>(views_->tracks()) : views_->view(part->source);
            view.setAccessibleDescription(spoken(*document(), *analysis, model_->step(), *part));
        }
    }
    refreshMarks();
}

void DocumentPage::tellPicked() {
    if (axis().selection() || axis().part()) {
        Q_EMIT picked();
    }
}

void DocumentPage::refreshMarks() {
    const StepAnalysis* analysis = model_->analysis();
    if (analysis == nullptr) {
        return;
    }
    const TraceDocument& shown = *document();
    const MarkChoice& choice = model_->choice();
    const std::optional<TaskSelection>& selection = axis().selection();
    const std::int64_t shift = analysis->shift(choice.alignment, selection);
    views_->view(Source::simulated).setShift(shift);
    views_->view(Source::simulated)
        .setLowerBound(shown.baseline ? std::nullopt : shown.lowerBound(), shown.run.on_cluster.has_value());
    views_->memory().setDocument(shown, shift);
    minimap_->setStore(shown.measured ? shown.measured : shown.simulated, shown.measured ? 0 : shift);
    minimap_->setTracks(shown.measured || shown.simulated ? nullptr : shown.tracks);
    const TimelineColors colors = timelineColors(palette());
    // The other modes show simulated tasks in the measured timeline.
    const bool showsSimulated = shown.simulated && (choice.mode == CompareMode::side_by_side || !shown.measured);
    std::vector<LegendEntry> entries;
    for (const Source source : {Source::measured, Source::simulated}) {
        const std::shared_ptr<const TimelineMarks> marks = analysis->marks(source, choice, selection, axis().part());
        if (marks && marks->recolours()) {
            const QString whyNone = !marks->differences.empty()          ? QString()
                                    : !shown.whyNoTwins.empty()          ? QString::fromStdString(shown.whyNoTwins)
                                    : !whyNothingIsLate(shown).isEmpty() ? whyNothingIsLate(shown)
                                                                         : tr("none of this step has a twin");
            entries = latenessEntries(*marks, shown, whyNone, colors);
        }
        views_->view(source).setMarks(marks);
        views_->view(source).setHidden(choice.hiddenKinds);
    }
    const bool recoloured = !entries.empty();
    if (const QString partitions = partitionLegend(shown); !recoloured && !partitions.isEmpty()) {
        const QColor bar = styleOf(TaskKind::forward).color;
        entries.push_back({bar, Qt::NoBrush, partitions, -1, false, {}, partitionShade(bar, 1)});
    }
    const bool overlap =
        (shown.measured && shown.measured->overlaps()) || (shown.simulated && shown.simulated->overlaps());
    if (overlap && !recoloured) {
        entries.push_back({styleOf(TaskKind::forward).color, QBrush(veilOf(colors)), tr("faint: other steps")});
    }
    if (choice.causes) {
        const std::vector<Source> sources =
            showsSimulated ? std::vector{Source::measured, Source::simulated} : std::vector{Source::measured};
        const std::vector<LegendEntry> causes = causeEntries(*analysis, sources, choice.hiddenCauses, colors);
        entries.insert(entries.end(), causes.begin(), causes.end());
    }
    QColor copies;
    if (shown.simulation && shown.simulated && !shown.baseline) {
        const LinkTiers links = linkTiers(shown.simulation->options);
        if (!shown.measured && !links.tiers.empty()) {  // of several tiers, no colour is that of all copies
            copies = links.tiers.size() == 1 ? tierColor(links.tiers.front().color) : colors.lane;
        }
        for (const LinkTiers::Tier& tier : links.tiers) {
            entries.push_back({tierColor(tier.color), Qt::NoBrush, tier.name, -1, false, tier.about});
        }
    }
    legend_->setCopyColor(copies);
    legend_->setHidden(choice.hiddenKinds);
    legend_->setEntries(std::move(entries), recoloured);
    const auto showFacts = [&](Source source, const QString& headline) {
        const QString path = choice.criticalPath ? analysis->criticalPathText(source) : QString();
        views_->pane(source).setFacts(headline, path);
    };
    showFacts(Source::measured, measuredHeadline(shown, model_->step()));
    showFacts(Source::simulated, simulatedHeadline(shown, model_->step()));
    views_->pane(Source::simulated).setVisible(showsSimulated);
    giveWay();
}
}  // namespace pipescope
