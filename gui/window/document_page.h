#pragma once

#include "gui/document/viewed_files.h"
#include "gui/style/work_pool.h"
#include "gui/window/lane_actions.h"
#include "gui/window/page_model.h"
#include "gui/window/page_navigation.h"
#include "gui/window/page_notes.h"
#include "gui/window/page_tracks.h"
#include "gui/window/timeline_stack.h"

#include <QToolButton>
#include <QWidget>

#include <memory>

class QLabel;
class QStackedWidget;

namespace pipescope {
/// A badge that says whether the page's trace is being recorded. While it is pressed, a view that shows the end of the
/// trace keeps showing it as the trace grows.
class LiveBadge : public QToolButton {
    Q_OBJECT

public:
    enum class State { no, following, ended };

    explicit LiveBadge(QWidget* parent = nullptr);
    void setState(State state);
    State state() const { return state_; }
    /// True if the view must follow the end.
    bool follows() const { return state_ == State::following && isChecked(); }

private:
    State state_ = State::no;
};

struct Baseline;
class AnswerBar;
class CompareBar;
class ElidedLabel;
class Legend;
class MessageBar;
class Minimap;
class StepBox;
class StepStrip;

/// The tab of one file: its model, and the widgets that show it. Everything outside the page follows the window's
/// current page. Threading: the GUI thread.
class DocumentPage : public QWidget {
    Q_OBJECT

public:
    /// Creates an empty page for the file, or the files of one run's processes, which are being opened.
    explicit DocumentPage(const QStringList& files, QWidget* parent = nullptr);

    QString path() const { return files_->path(); }
    const std::shared_ptr<ViewedFiles>& files() const { return files_; }
    PageModel& model() const { return *model_; }
    PageNavigation& navigation() { return navigation_; }
    LaneActions& lanes() { return lanes_; }
    PageNotes& notes() const { return *notes_; }
    /// Reads notes and tracks from the file beside the trace.
    void loadNotes(const QString& trace);
    /// Asks for a note on the measured range, or on the selected task or bubble.
    void askForNote();
    /// Asks how the track that the query makes shall be called, and shows it.
    void askForTrack(const QString& sql);
    PageTracks& tracks() const { return *tracks_; }
    TimelineStack& views() const { return *views_; }
    Minimap& minimap() const { return *minimap_; }
    StepBox& stepBox() const { return *stepBox_; }
    StepStrip& stepStrip() const { return *stepStrip_; }
    AnswerBar& answer() const { return *answer_; }
    MessageBar& messages() const { return *messages_; }
    /// Why the notes on ranges could not be read or saved; empty if they could.
    const QString& noteTrouble() const { return noteTrouble_; }
    LiveBadge& live() const { return *live_; }
    TimeAxisModel& axis() const { return model_->axis(); }
    /// Null until the file is read.
    const std::shared_ptr<const TraceDocument>& document() const { return model_->document(); }

    /// Replaces the document. Keeps zoom, step and selection, as far as they exist in the new one.
    void setDocument(std::shared_ptr<const TraceDocument> document);
    /// Shows how much of the file was read, in percent, until the document is there.
    void showOpening(int percent);
    /// Shows that the file is being written, but has nothing to show yet.
    void showWaiting();
    void setLive(LiveBadge::State state);
    /// For a picture: leaves out remarks on how the figures were made, which no reader can act on.
    void leaveOutRemarks();
    /// Repaints the notes in the colours of a new theme.
    void refreshNotes();
    /// The height in which nothing gives way to the lanes; long answers and legends are one line.
    int wholeHeight() const;
    /// Focuses the first existing timeline, so that keys go there.
    void focusTimeline();

Q_SIGNALS:
    /// The user does not want to wait for the file any longer.
    void openingCancelled();
    /// A click in a timeline selected something.
    void picked();

protected:
    void changeEvent(QEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;

private:
    QWidget* createOpening();
    void fillTop();
    void connectModel();
    void connectViews();
    void showDocument();
    void showSimulated();
    /// Lists missing parts of the document, with the reasons.
    void showNotes();
    /// Computes the answer about the file in a worker.
    void answer(const std::shared_ptr<const TraceDocument>& document);
    void setNoteTrouble(const QString& text);
    PageTracks::Queried queried() const;
    void fillSteps();
    /// Shows the results of the analysis as choice and selection require.
    void refreshMarks();
    void revealSelection();
    void showSelection();
    void tellPicked();
    void shareHeightLater();
    /// The height of the lanes and of the parts that are never hidden.
    int leastHeight() const;
    /// In a low page, parts leave their room to the lanes, the least needed first.
    void giveWay();

    std::shared_ptr<ViewedFiles> files_;  // shared with workers
    PageModel* model_;
    AnswerBar* answer_;
    MessageBar* messages_;
    QStackedWidget* stack_;
    QLabel* opening_;
    QWidget* content_;
    QWidget* top_;
    QLabel* stepLabel_;
    StepBox* stepBox_;
    ElidedLabel* summary_;
    CompareBar* compareBar_;
    LiveBadge* live_;
    Legend* legend_;
    StepStrip* stepStrip_;
    Minimap* minimap_;
    std::shared_ptr<const Baseline> shownBaseline_;
    TimelineStack* views_;
    PageNavigation navigation_;
    LaneActions lanes_;
    PageNotes* notes_;
    PageTracks* tracks_;
    std::shared_ptr<const TraceDocument> read_;  // the document without tracks of the user's own
    bool notesRead_ = false;
    QString noteTrouble_;
    bool leavesOutRemarks_ = false;
    LatestJob judging_;
    std::shared_ptr<const TraceDocument> judged_;
};
}  // namespace pipescope
