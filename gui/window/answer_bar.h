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
    /// The bar shows at most this many lines, at least one, and a button for the rest of a longer text.
    void setMostLines(int lines);
    int heightOfLines(int lines) const;
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
    /// The text's first letters, in which each part leads to its evidence. Precondition: there is a verdict.
    QString htmlOf(qsizetype letters) const;
    /// True if so many letters fit in these lines of `room` pixels.
    bool fits(qsizetype letters, int lines, int room) const;
    /// How many letters of a text that does not fit do, up to the end of a word.
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
