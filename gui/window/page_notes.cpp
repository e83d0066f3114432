#include "gui/window/page_notes.h"

#include "base/error.h"

#include <algorithm>
#include <utility>

namespace pipescope {
namespace {
std::vector<TimeMark> notesOf(const std::vector<TimeMark>& marks) {
    std::vector<TimeMark> notes;
    std::copy_if(marks.begin(), marks.end(), std::back_inserter(notes),
                 [](const TimeMark& mark) { return mark.length > 0; });
    return notes;
}
}  // namespace

/// A change of marks that was made already when it is pushed.
class MarksCommand : public QUndoCommand {
public:
    MarksCommand(PageNotes& notes, MarksChange change)
        : QUndoCommand(PageNotes::tr("marks and notes")), notes_(&notes), change_(std::move(change)) {}

    void undo() override { apply({change_.removed, change_.added}); }
    void redo() override {
        if (std::exchange(made_, true)) {
            apply(change_);
        }
    }

private:
    void apply(const MarksChange& change) {
        if (notes_) {
            notes_->apply(change);
        }
    }

    QPointer<PageNotes> notes_;
    MarksChange change_;
    bool made_ = false;
};

PageNotes::PageNotes(TimeAxisModel& axis, QObject* parent) : QObject(parent), axis_(axis) {
    connect(&axis_, &TimeAxisModel::marksChanged, this, &PageNotes::keep);
}

void PageNotes::load(const QString& trace) {
    trace_.clear();
    whyNot_.clear();
    stored_.clear();
    try {
        std::vector<TimeMark> marks = readNotes(trace);
        trace_ = trace;
        stored_ = marks;
        for (const TimeMark& mark : axis_.marks()) {
            if (mark.length == 0) {
                marks.push_back(mark);
            }
        }
        show(std::move(marks));
    } catch (const Error& error) {
        whyNot_ = QString::fromUtf8(error.what());
        Q_EMIT failed(whyNot_);
        known_ = axis_.marks();
    }
}

void PageNotes::show(std::vector<TimeMark> marks) {
    const bool before = std::exchange(applying_, true);
    axis_.setMarks(std::move(marks));
    applying_ = before;
    known_ = axis_.marks();
}

void PageNotes::annotate(const TimeRange& range, const QString& text) {
    if (range.length() > 0 && !text.isEmpty()) {
        std::vector<TimeMark> marks = axis_.marks();
        marks.push_back({range.start, text, range.length()});
        axis_.setMarks(std::move(marks));
    }
}

void PageNotes::restoreMarks(std::vector<TimeMark> marks) {
    for (const TimeMark& note : notesOf(axis_.marks())) {
        marks.push_back(note);
    }
    show(std::move(marks));
}

void PageNotes::apply(const MarksChange& change) {
    const std::vector<TimeMark> before = axis_.marks();
    show(withChange(before, change));
    if (notesOf(before) != notesOf(known_)) {
        save();
    }
}

void PageNotes::keep() {
    if (applying_ || axis_.marks() == known_) {
        return;
    }
    const std::vector<TimeMark> before = std::exchange(known_, axis_.marks());
    if (undo_) {
        undo_->push(new MarksCommand(*this, changeBetween(before, known_)));
    }
    if (notesOf(before) != notesOf(known_)) {
        save();
    }
}

void PageNotes::save() {
    if (trace_.isEmpty()) {
        if (!whyNot_.isEmpty()) {
            Q_EMIT failed(whyNot_);
        }
        return;
    }
    const std::vector<TimeMark> ours = notesOf(known_);
    try {
        stored_ = changeNotes(trace_, stored_, ours);
        show(withChange(known_, changeBetween(ours, stored_)));
        Q_EMIT saved();
    } catch (const Error& error) {
        Q_EMIT failed(QString::fromUtf8(error.what()));
    }
}
}  // namespace pipescope
