#include "gui/window/page_notes.h"

#include "gui/document/notes_file.h"
#include "schedule/error.h"

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
    MarksCommand(PageNotes& notes, std::vector<TimeMark> before, std::vector<TimeMark> after)
        : QUndoCommand(PageNotes::tr("marks and notes")),
          notes_(&notes),
          before_(std::move(before)),
          after_(std::move(after)) {}

    void undo() override { apply(before_); }
    void redo() override {
        if (std::exchange(made_, true)) {
            apply(after_);
        }
    }

private:
    void apply(const std::vector<TimeMark>& marks) {
        if (notes_) {
            notes_->apply(marks);
        }
    }

    QPointer<PageNotes> notes_;
    std::vector<TimeMark> before_;
    std::vector<TimeMark> after_;
    bool made_ = false;
};

PageNotes::PageNotes(TimeAxisModel& axis, QObject* parent) : QObject(parent), axis_(axis) {
    connect(&axis_, &TimeAxisModel::marksChanged, this, &PageNotes::keep);
}

void PageNotes::load(const QString& trace) {
    try {
        trace_.clear();
        std::vector<TimeMark> marks = readNotes(trace);
        trace_ = trace;
        for (const TimeMark& mark : axis_.marks()) {
            if (mark.length == 0) {
                marks.push_back(mark);
            }
        }
        const bool before = std::exchange(applying_, true);
        axis_.setMarks(std::move(marks));
        applying_ = before;
    } catch (const Error& error) {
        Q_EMIT failed(QString::fromUtf8(error.what()));
    }
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
    const bool before = std::exchange(applying_, true);
    axis_.setMarks(std::move(marks));
    applying_ = before;
    known_ = axis_.marks();
}

void PageNotes::apply(const std::vector<TimeMark>& marks) {
    const bool before = std::exchange(applying_, true);
    axis_.setMarks(marks);
    applying_ = before;
    const bool changed = notesOf(known_) != notesOf(marks);
    known_ = axis_.marks();
    if (changed) {
        save();
    }
}

void PageNotes::keep() {
    if (applying_ || axis_.marks() == known_) {
        return;
    }
    const std::vector<TimeMark> before = std::exchange(known_, axis_.marks());
    if (undo_) {
        undo_->push(new MarksCommand(*this, before, known_));
    }
    if (notesOf(before) != notesOf(known_)) {
        save();
    }
}

void PageNotes::save() {
    if (trace_.isEmpty()) {
        return;
    }
    try {
        writeNotes(trace_, notesOf(known_));
    } catch (const Error& error) {
        Q_EMIT failed(QString::fromUtf8(error.what()));
    }
}
}  // namespace pipescope
