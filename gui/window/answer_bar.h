#pragma once

#include "analysis/run_verdict.h"

#include <QWidget>

#include <memory>

class QLabel;
class QToolButton;

namespace pipescope {
/// The first line of a page: the verdict on its run, in which each part leads to its evidence. Messages about the file
/// are a count beside it, red if something failed, so that they never push the verdict down.
class AnswerBar : public QWidget {
    Q_OBJECT

public:
    explicit AnswerBar(QWidget* parent = nullptr);

    /// Null: it is being computed.
    void setVerdict(std::shared_ptr<const RunVerdict> verdict);
    const std::shared_ptr<const RunVerdict>& verdict() const { return verdict_; }
    /// The text as shown, without links.
    QString text() const;
    QLabel& label() const { return *label_; }
    /// Of a longer text, these lines are shown, at least one, and a button that shows the rest.
    void setMostLines(int lines);
    /// Shows that there are so many messages; none hides the button. `failed`: the gravest one says that something
    /// failed.
    void setMessages(qsizetype count, bool failed);
    /// Checked while a text that takes more lines is shown whole. Hidden if the lines suffice.
    QToolButton& moreButton() const { return *more_; }
    /// Checked while the messages are shown.
    QToolButton& messagesButton() const { return *messages_; }

Q_SIGNALS:
    /// The user wants to see what this part rests on.
    void asked(const pipescope::VerdictPart& part);

protected:
    void resizeEvent(QResizeEvent* event) override;
    void changeEvent(QEvent* event) override;

private:
    void refresh();
    /// So many letters of the text, in which each part leads to its evidence. Precondition: there is a verdict.
    QString htmlOf(qsizetype letters) const;
    /// How many letters fit in these lines of `room` pixels, up to the end of a word.
    qsizetype lettersIn(int lines, int room) const;

    std::shared_ptr<const RunVerdict> verdict_;
    QLabel* label_;
    QToolButton* more_;
    QToolButton* messages_;
    qsizetype count_ = 0;
    bool failed_ = false;
    int mostLines_ = 1;
};
}  // namespace pipescope
