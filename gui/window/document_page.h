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

/// State to keep when a page's document is replaced.
enum class Keep {
    nothing,
    view,  ///< zoom, step and selection, as far as they exist in the new document
};

/// An open document: the measured timeline above the simulated one on one time axis, memory below, with the selected
/// step and task. Everything outside the page follows the window's current page. Threading: the GUI thread.
class DocumentPage : public QWidget {
    Q_OBJECT

public:
    /// Creates an empty page for the file at `path`, which is being opened.
    explicit DocumentPage(QString path, QWidget* parent = nullptr);

    const QString& path() const { return path_; }
    /// Null until the file is read.
    const std::shared_ptr<const TraceDocument>& document() const { return document_; }
    void setDocument(std::shared_ptr<const TraceDocument> document, Keep keep = Keep::nothing);
    /// The document as in the file, without scenario; null until it is read.
    const std::shared_ptr<const TraceDocument>& recorded() const { return recorded_; }
    /// Replaces the simulated half until showRecorded(). Keeps the measured half and the zoom. For a scenario that
    /// cannot run, only the title changes.
    void showScenario(const SimulatedScenario& scenario);
    void showRecorded();
    /// Adds the comparison of the displayed scenario with the measurement, which takes longer than the simulation.
    void showComparison(const SimulatedScenario& scenario, const Comparison& comparison);

    /// Sets the measured step to compare. Ignored if the document has no such step.
    void selectStep(std::int32_t step);
    std::int32_t step() const { return step_; }
    /// Selects a task of one timeline and marks its twin in the other; nullopt clears the selection.
    void select(Source source, std::optional<SliceRef> slice);
    /// Selects a task and makes it visible. A task that exists only in the simulated step 0 is found for any step.
    /// Returns false if there is no such task.
    bool goTo(Source source, const TaskKey& task);
    /// Selects the lane's first task of the step and shows all its work in the step. Uses simulated tasks if the lane
    /// has no measured ones.
    void goToLane(LaneId lane);
    /// Makes a time of the recording visible at the current zoom, and moves the cursor there.
    void goToTime(std::int64_t ns);
    /// Zooms to the selected task and its twin, or to the step without a selection.
    void fitSelection();
    /// Moves the view just enough to show the selected task.
    void showSelection();
    /// Selects the next (1) or previous (-1) task in the row of the selected one, or the first visible task without a
    /// selection.
    void moveSelection(int by);
    /// Selects the next (1) or previous (-1) task of the same kind on the same lane, or the first visible task without
    /// a selection.
    void selectOfKind(int by);
    /// Adds a mark at the cursor; without one at the start of the selected task, otherwise in the middle.
    void addMark();
    /// Makes the next (1) or previous (-1) mark visible.
    void goToMark(int by);
    void setMemoryShown(bool shown);
    /// Shows that the file is being written, but has nothing to show yet.
    void showWaiting();
    enum class Live { no, following, ended };
    /// Shows a badge beside the step. While it is pressed, a page that shows the end of its document keeps showing it
    /// as the document grows.
    void setLive(Live live);
    Live live() const { return live_; }
    QAbstractButton& followButton() const;
    /// Repaints the notes in the colours of a new theme.
    void refreshNotes();
    /// Sets the comparison of measured and simulated, and the marks on top.
    void setChoice(const MarkChoice& choice);
    const MarkChoice& choice() const { return choice_; }
    /// Analysis of the step; null until the file is read.
    const StepAnalysis* analysis() const { return analysis_.get(); }

    TimeAxisModel& axis() const { return *axis_; }
    TimelinePane& pane(Source source) const;
    TimelineView& view(Source source) const;
    MemoryView& memory() const { return *memory_; }
    /// The panes of memory, and of threads and streams, with their header lines.
    QWidget& memoryPane() const { return *memoryPane_; }
    QWidget& trackPane() const { return *trackPane_; }
    Minimap& minimap() const { return *minimap_; }
    TrackView& tracks() const { return *tracks_; }
    MessageBar& messages() const { return *messages_; }
    /// Focuses the first existing timeline, so that keys go there.
    void focusTimeline();

Q_SIGNALS:
    void documentChanged();
    /// Only the document's simulated half changed.
    void simulationChanged();
    void stepChanged();
    void selectionChanged();

protected:
    void changeEvent(QEvent* event) override;
    /// Leaves keys to a focused box if it uses them; otherwise they go to the timelines.
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    QWidget* createContent();
    QWidget* createTop(QWidget* parent);
    QWidget* createMemoryPane(QWidget* parent);
    QWidget* createTrackPane(QWidget* parent);
    void connectViews();
    /// Lists missing parts of the document, with the reasons.
    void showNotes();
    /// True if the end is visible, so that new data should be too.
    bool atTheEnd() const;
    void scrollToTheEnd();
    void replaceSimulated(std::shared_ptr<const TraceDocument> document, const QString& title);
    void refreshLegend();
    void fillSteps();
    void refresh();
    /// Analyses the step again; see document_page_marks.cpp.
    void analyse();
    /// Shows the results of the analysis as choice and selection require.
    void refreshMarks();
    void refreshMemory(std::int64_t shift);
    /// From the start to the end of the selected task and its twin, on the axis; empty without a selection.
    std::optional<TimeRange> selectedRange() const;
    void selectAgain(const TaskSelection& selected, const TraceDocument& before);
    void shareHeight();
    void alignGutters();
    void syncScrollBars();
    /// Scrolls the lanes of both timelines together.
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
