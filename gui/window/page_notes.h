#pragma once

#include "gui/document/notes_file.h"

#include <QObject>
#include <QPointer>
#include <QUndoStack>

#include <vector>

namespace pipescope {
/// Keeps the notes on ranges of a page's trace in the file beside it, and every change of marks and notes on the undo
/// stack. Threading: the GUI thread.
class PageNotes : public QObject {
    Q_OBJECT

public:
    /// `axis` must outlive this object.
    PageNotes(TimeAxisModel& axis, QObject* parent);

    /// Reads the notes of the trace; `failed` follows if they cannot be read. Every later change then fails too.
    void load(const QString& trace);
    /// The stack of the page's changes, which the notes share; null: they cannot be undone.
    void setUndoStack(QUndoStack* stack) { undo_ = stack; }
    void annotate(const TimeRange& range, const QString& text);
    /// Shows marks without a step of undo, as when a session is restored. Keeps the notes.
    void restoreMarks(std::vector<TimeMark> marks);

Q_SIGNALS:
    void failed(const QString& text);
    /// The notes are in the file again.
    void saved();

private:
    friend class MarksCommand;
    /// The axis' marks changed: makes that a step of undo, and saves.
    void keep();
    void apply(const MarksChange& change);
    /// Without a step of undo.
    void show(std::vector<TimeMark> marks);
    void save();

    TimeAxisModel& axis_;
    QString trace_;   // empty: not to be saved
    QString whyNot_;  // why the notes cannot be saved; empty: they can, or nothing was read yet
    std::vector<TimeMark> known_;
    std::vector<TimeMark> stored_;  // the file's notes when it was last read or written
    QPointer<QUndoStack> undo_;
    bool applying_ = false;
};
}  // namespace pipescope
