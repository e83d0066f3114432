#include "gui/window/main_window.h"

#include "gui/document/document_loader.h"
#include "gui/document/headlines.h"
#include "gui/style/elided_label.h"
#include "gui/style/legend.h"
#include "gui/style/message_bar.h"
#include "gui/style/number_format.h"
#include "gui/tables/difference_table_model.h"
#include "gui/tables/lane_table_model.h"
#include "gui/tables/task_details.h"
#include "gui/timeline/memory_view.h"
#include "gui/timeline/timeline_pane.h"

#include <QCloseEvent>
#include <QComboBox>
#include <QDockWidget>
#include <QFileInfo>
#include <QFutureWatcher>
#include <QLabel>
#include <QScrollBar>
#include <QSettings>
#include <QSignalBlocker>
#include <QSplitter>
#include <QStackedWidget>
#include <QTableView>
#include <QVBoxLayout>
#include <QtConcurrentRun>

#include <algorithm>
#include <set>

namespace pipescope {
namespace {
const QString kWindowGeometry = QStringLiteral("window/geometry");

struct Loaded {
    std::shared_ptr<const TraceDocument> document;  // null: see error
    QString error;
};

Loaded tryLoad(const QString& path) {
    try {
        return {loadTrace(path), {}};
    } catch (const std::exception& error) {
        return {nullptr, QString::fromUtf8(error.what())};
    }
}

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

MainWindow::MainWindow(QSettings* settings, QWidget* parent)
    : QMainWindow(parent), settings_(settings), axis_(new TimeAxisModel(this)) {
    setWindowTitle(tr("PipeScope"));
    setAcceptDrops(true);
    auto* central = new QWidget(this);
    auto* layout = new QVBoxLayout(central);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(0);
    messages_ = new MessageBar(central);
    stack_ = new QStackedWidget(central);
    content_ = createContent();
    stack_->addWidget(createEmptyState());
    stack_->addWidget(content_);
    layout->addWidget(messages_);
    layout->addWidget(stack_, 1);
    setCentralWidget(central);
    createDocks();
    connectViews();
    createActions();
    resize(1600, 900);
    if (settings_ != nullptr) {
        restoreGeometry(settings_->value(kWindowGeometry).toByteArray());
    }
    for (QDockWidget* dock : docks_) {
        dock->hide();  // there is nothing to tell yet
    }
}

MainWindow::~MainWindow() = default;

void MainWindow::connectViews() {
    for (const Source source : {Source::measured, Source::simulated}) {
        TimelineView& each = view(source);
        connect(&each, &TimelineView::picked, this,
                [this, source](std::optional<SliceRef> slice) { select(source, slice); });
        connect(&each, &AxisView::overflowChanged, this, &MainWindow::syncScrollBars, Qt::QueuedConnection);
        each.setDescription([this, source](SliceRef slice) {
            const std::int32_t step = source == Source::measured ? document_->measured->slice(slice).key.step : step_;
            return toolTipOf(taskFacts(*document_, {source, slice, twinOf(*document_, source, slice, step)}, step),
                             source);
        });
    }
    connect(memory_, &AxisView::overflowChanged, this, &MainWindow::syncScrollBars, Qt::QueuedConnection);
    QScrollBar* upper = measured_->view().verticalScrollBar();
    QScrollBar* lower = simulated_->view().verticalScrollBar();
    connect(upper, &QScrollBar::valueChanged, lower, &QScrollBar::setValue);
    connect(lower, &QScrollBar::valueChanged, upper, &QScrollBar::setValue);
    connect(axis_, &TimeAxisModel::selectionChanged, this, &MainWindow::refreshSelection);
    connect(stepChoice_, &QComboBox::currentIndexChanged, this, [this](int index) {
        if (index >= 0) {
            selectStep(stepChoice_->itemData(index).toInt());
        }
    });
    connect(differenceTable_, &QTableView::clicked, this, [this](const QModelIndex& index) {
        if (const std::optional<TaskKey> task = differenceModel_->taskOf(index)) {
            goTo(*task);
        }
    });
    connect(differenceTable_, &QTableView::activated, differenceTable_, &QTableView::clicked);
}

TimelinePane& MainWindow::pane(Source source) const {
    return source == Source::measured ? *measured_ : *simulated_;
}

TimelineView& MainWindow::view(Source source) const {
    return pane(source).view();
}

void MainWindow::open(const QString& path) {
    const int number = ++loading_;
    setWindowTitle(tr("Opening %1 – PipeScope").arg(QFileInfo(path).fileName()));
    auto* watcher = new QFutureWatcher<Loaded>(this);
    connect(watcher, &QFutureWatcher<Loaded>::finished, this, [this, watcher, number, path] {
        const Loaded result = watcher->result();
        watcher->deleteLater();
        if (number != loading_) {
            return;  // another file was asked for meanwhile
        }
        if (!result.document) {
            showError(result.error);
            Q_EMIT failed(result.error);
            return;
        }
        setDocument(result.document);
        remember(path);
        Q_EMIT loaded();
    });
    watcher->setFuture(QtConcurrent::run(tryLoad, path));
}

void MainWindow::showError(const QString& text) {
    messages_->showMessage(MessageBar::Kind::error, text);
    setWindowTitle(document_ ? tr("%1 – PipeScope").arg(QFileInfo(document_->path).fileName()) : tr("PipeScope"));
}

void MainWindow::setDocument(std::shared_ptr<const TraceDocument> document) {
    axis_->select(std::nullopt);
    document_ = std::move(document);
    step_ = typicalStep(*document_);
    setWindowTitle(tr("%1 – PipeScope").arg(QFileInfo(document_->path).fileName()));
    view(Source::measured).setStore(document_->measured);
    view(Source::simulated).setStore(document_->simulated);
    measured_->setVisible(document_->measured != nullptr);
    simulated_->setVisible(document_->simulated != nullptr);
    legend_->setKinds(kindsOf(*document_));
    differenceModel_->setTasks(document_->comparison ? document_->comparison->worst : std::vector<ComparedTask>{});
    alignGutters();
    fillSteps();
    stack_->setCurrentWidget(content_);
    showDocks();
    QMetaObject::invokeMethod(this, &MainWindow::shareHeight, Qt::QueuedConnection);  // once the docks stand
    if (document_->notes.isEmpty()) {
        messages_->hide();
    } else {
        messages_->showMessage(MessageBar::Kind::note, document_->notes.join(QLatin1Char('\n')));
    }
    refresh();
    axis_->setTotal(wholeRange(*document_, step_));
    axis_->show(stepRange(*document_, step_));
    syncScrollBars();
    (document_->measured ? view(Source::measured) : view(Source::simulated)).setFocus();
}

void MainWindow::fillSteps() {
    const QSignalBlocker blocker(stepChoice_);
    stepChoice_->clear();
    for (const StepSpan& span : stepsOf(*document_)) {
        stepChoice_->addItem(tr("%1 (%2)").arg(span.step).arg(formatDuration(span.statistics.step_time().count())),
                             span.step);
    }
    stepChoice_->setCurrentIndex(stepChoice_->findData(step_));
    stepChoice_->setEnabled(stepChoice_->count() > 1);
}

void MainWindow::selectStep(std::int32_t step) {
    if (!document_ || !document_->measured || document_->measured->step(step) == nullptr || step == step_) {
        return;
    }
    // What is on screen stays where it was within its step.
    const std::int64_t before = axis_->origin();
    step_ = step;
    const QSignalBlocker blocker(stepChoice_);
    stepChoice_->setCurrentIndex(stepChoice_->findData(step_));
    refresh();
    axis_->show({axis_->window().start + axis_->origin() - before,
                 axis_->window().start + axis_->origin() - before + static_cast<std::int64_t>(axis_->window().length)});
    if (const std::optional<TaskSelection> selection = axis_->selection()) {
        select(selection->source, selection->slice);
    }
}

void MainWindow::refresh() {
    const StepSpan* span = document_->measured ? document_->measured->step(step_) : nullptr;
    const std::int64_t shift = simulatedShift(*document_, step_);
    axis_->setOrigin(span != nullptr ? span->range().start : 0);
    view(Source::simulated).setShift(shift);
    measured_->setFacts(measuredHeadline(*document_, step_));
    simulated_->setFacts(simulatedHeadline(*document_, step_));
    summary_->setText(comparisonHeadline(*document_));
    laneModel_->setFacts(laneFacts(*document_, step_));
    const TimelineStore* names = document_->measured ? document_->measured.get() : document_->simulated.get();
    memory_->setScene(
        {names->lanes(), document_->measuredMemory.get(), &document_->simulatedMemory, shift, document_->memoryLimit});
    QString limit;
    if (document_->memoryLimit) {
        const QString bytes = formatBytes(*document_->memoryLimit);
        limit = memory_->showsLimit() ? tr(", red: limit of %1 per lane").arg(bytes)
                                      : tr("; the limit of %1 per lane is above the scale").arg(bytes);
    }
    memoryTitle_->setText(tr("<b>MEMORY</b>&nbsp;&nbsp; area: measured, line: simulated, ▼ peak%1").arg(limit));
    memoryPane_->setVisible(showMemory_->isChecked() && !memory_->empty());
}

void MainWindow::select(Source source, std::optional<SliceRef> slice) {
    if (!slice || !document_) {
        axis_->select(std::nullopt);
        return;
    }
    if (source == Source::measured) {
        const std::int32_t of = document_->measured->slice(*slice).key.step;
        if (of != step_ && document_->measured->step(of) != nullptr) {
            axis_->select(std::nullopt);  // the simulated step moves there, so that the twin is beside it
            const TimeWindow window = axis_->window();
            selectStep(of);
            axis_->scrollTo(window);
        }
    }
    axis_->select(TaskSelection{source, *slice, twinOf(*document_, source, *slice, step_)});
    view(source).reveal(*slice);
}

void MainWindow::refreshSelection() {
    const std::optional<TaskSelection>& selection = axis_->selection();
    if (!selection) {
        details_->clear();
        return;
    }
    const TaskFacts facts = taskFacts(*document_, *selection, step_);
    details_->setFacts(facts, selection->source);
    view(selection->source).setAccessibleDescription(spoken(facts, selection->source));
}

void MainWindow::goTo(const TaskKey& task) {
    if (!document_ || !document_->measured) {
        return;
    }
    if (const std::optional<SliceRef> slice = document_->measured->find(task)) {
        select(Source::measured, slice);
        fitSelection();
    }
}

void MainWindow::closeEvent(QCloseEvent* event) {
    if (settings_ != nullptr) {
        settings_->setValue(kWindowGeometry, saveGeometry());
        if (docksShown_) {
            settings_->setValue(QString(kWindowStateKey), saveState());
        }
    }
    QMainWindow::closeEvent(event);
}
}  // namespace pipescope
