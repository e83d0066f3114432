#pragma once

#include "gui/document/step_analysis.h"
#include "gui/document/trace_document.h"
#include "gui/timeline/timeline_store.h"

#include <QWidget>

#include <memory>
#include <optional>

class QAbstractButton;
class QCheckBox;
class QComboBox;
class QLabel;
class QScrollBar;
class QSplitter;
class QStackedWidget;
class QToolButton;

namespace pipescope {
class CompareBar;
class ElidedLabel;
class Legend;
class MemoryView;
class MessageBar;
class Minimap;
class TimeAxisModel;
class TimelinePane;
class TimelineView;
class TrackView;
struct SimulatedScenario;
struct TaskSelection;

/// What survives when a page's document gives way to another one.
enum class Keep {
    nothing,
    view,  ///< zoom, step and selection, as far as the new document has them
};

/// One open document: the measured timeline above the simulated one on one time axis, memory below, the choice of the
/// step, what is selected. Everything outside of it follows the window's current page.
/// Threading: the GUI thread.
class DocumentPage : public QWidget {
    Q_OBJECT

public:
    /// An empty page for the file at `path`, which says that it is being opened.
    explicit DocumentPage(QString path, QWidget* parent = nullptr);

    const QString& path() const { return path_; }
    /// Null until the file is read.
    const std::shared_ptr<const TraceDocument>& document() const { return document_; }
    void setDocument(std::shared_ptr<const TraceDocument> document, Keep keep = Keep::nothing);
    /// What the file holds, whatever is played with; null until it is read.
    const std::shared_ptr<const TraceDocument>& recorded() const { return recorded_; }
    /// Shows another simulated half, until showRecorded(). The measured half stays as it is, and so does the zoom. Of a
    /// scenario that cannot run only the title tells.
    void showScenario(const SimulatedScenario& scenario);
    void showRecorded();
    /// Adds how the shown scenario compares with what was measured, which takes longer than to simulate it.
    void showComparison(const SimulatedScenario& scenario, const Comparison& comparison);

    /// The measured step that is compared. Ignored if the document has no such step.
    void selectStep(std::int32_t step);
    std::int32_t step() const { return step_; }
    /// Selects a task of one timeline, marks its twin in the other; nothing clears.
    void select(Source source, std::optional<SliceRef> slice);
    /// Selects the task and brings it on screen. A simulated one that is only simulated in step 0 is found whatever
    /// its step. Returns whether there is such a task.
    bool goTo(Source source, const TaskKey& task);
    /// Selects the lane's first task of the step and shows all that the lane did in it; of a lane without measured
    /// tasks the simulated ones.
    void goToLane(LaneId lane);
    /// Brings a time of the recording on screen, as near as it is now, and puts the cursor there.
    void goToTime(std::int64_t ns);
    /// Shows the selected task and its twin; without one the step.
    void fitSelection();
    /// Moves as little as it takes to see the selected task.
    void showSelection();
    /// Selects the next (1) or previous (-1) task of the selected one's row; without a selection the first on screen.
    void moveSelection(int by);
    /// Selects the next (1) or previous (-1) task of the selected one's kind on its lane; without a selection the first
    /// task on screen.
    void selectOfKind(int by);
    /// A mark where the pointer is, else at the start of the selected task, else in the middle.
    void addMark();
    /// Brings the next (1) or previous (-1) mark on screen.
    void goToMark(int by);
    void setMemoryShown(bool shown);
    /// Says that the file has nothing to show yet, but is being written.
    void showWaiting();
    enum class Live { no, following, ended };
    /// Puts a badge beside the step; while it is pressed, a page whose right end is in view stays there as its document
    /// grows.
    void setLive(Live live);
    Live live() const { return live_; }
    QAbstractButton& followButton() const;
    /// Paints the notes anew, in the colours of a new theme.
    void refreshNotes();
    /// How measured and simulated are compared, and what is marked on top of them.
    void setChoice(const MarkChoice& choice);
    const MarkChoice& choice() const { return choice_; }
    /// Of the step; null until the file is read.
    const StepAnalysis* analysis() const { return analysis_.get(); }

    TimeAxisModel& axis() const { return *axis_; }
    TimelinePane& pane(Source source) const;
    TimelineView& view(Source source) const;
    MemoryView& memory() const { return *memory_; }
    /// The memory, or the threads and streams, with the line above them.
    QWidget& memoryPane() const { return *memoryPane_; }
    QWidget& trackPane() const { return *trackPane_; }
    Minimap& minimap() const { return *minimap_; }
    TrackView& tracks() const { return *tracks_; }
    MessageBar& messages() const { return *messages_; }
    /// Keys go to the first timeline there is.
    void focusTimeline();

Q_SIGNALS:
    void documentChanged();
    /// The document's simulated half is another, and nothing else.
    void simulationChanged();
    void stepChanged();
    void selectionChanged();

protected:
    void changeEvent(QEvent* event) override;
    /// Leaves to boxes with the focus the keys that they know, which else are the timelines'.
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    QWidget* createContent();
    QWidget* createTop(QWidget* parent);
    QWidget* createMemoryPane(QWidget* parent);
    QWidget* createTrackPane(QWidget* parent);
    void connectViews();
    /// What the document lacks, and why.
    void showNotes();
    /// Whether the newest is in view, so that what comes next shall be too.
    bool atTheEnd() const;
    void scrollToTheEnd();
    void replaceSimulated(std::shared_ptr<const TraceDocument> document, const QString& title);
    void refreshLegend();
    void fillSteps();
    void refresh();
    /// Looks into the step anew; document_page_marks.cpp.
    void analyse();
    /// Shows what was found, as the choice and the selection want it.
    void refreshMarks();
    void refreshMemory(std::int64_t shift);
    /// From the start to the end of the selected task and its twin, on the axis; nothing is selected: nothing.
    std::optional<TimeRange> selectedRange() const;
    void selectAgain(const TaskSelection& selected, const TraceDocument& before);
    void shareHeight();
    void alignGutters();
    void syncScrollBars();
    /// Keeps the lanes of both timelines together while one is scrolled.
    void scrollAlong(const QScrollBar& moved, QScrollBar& other);

    QString path_;
    std::shared_ptr<const TraceDocument> document_;
    std::shared_ptr<const TraceDocument> recorded_;
    std::int32_t step_ = 0;
    bool memoryShown_ = true;
    bool scrolling_ = false;
    MarkChoice choice_;
    std::shared_ptr<const StepAnalysis> analysis_;
    Live live_ = Live::no;
    QToolButton* badge_ = nullptr;
    TimeAxisModel* axis_;
    QStackedWidget* stack_ = nullptr;
    QLabel* opening_ = nullptr;
    QWidget* content_ = nullptr;
    QComboBox* stepChoice_ = nullptr;
    ElidedLabel* summary_ = nullptr;
    CompareBar* compareBar_ = nullptr;
    Minimap* minimap_ = nullptr;
    Legend* legend_ = nullptr;
    MessageBar* messages_ = nullptr;
    QSplitter* splitter_ = nullptr;
    TimelinePane* measured_ = nullptr;
    TimelinePane* simulated_ = nullptr;
    QWidget* memoryPane_ = nullptr;
    QLabel* memoryTitle_ = nullptr;
    MemoryView* memory_ = nullptr;
    QCheckBox* composition_ = nullptr;
    Legend* memoryLegend_ = nullptr;
    QWidget* trackPane_ = nullptr;
    TrackView* tracks_ = nullptr;
};
}  // namespace pipescope
