#pragma once

#include "analysis/run_verdict.h"

#include <QWidget>

#include <memory>
#include <vector>

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
    /// Numbers of the verdict's parts.
    using Numbers = std::vector<std::size_t>;
    /// The first letters of these parts, each of which leads to its evidence. Precondition: there is a verdict.
    QString htmlOf(const Numbers& parts, qsizetype letters) const;
    QString htmlOf(const Numbers& parts) const;
    QString textOf(const Numbers& parts) const;
    QString styled(const VerdictPart& part, std::size_t number, const QString& text) const;
    /// True if the text fits in these lines of `room` pixels.
    bool fits(const QString& html, int lines, int room) const;
    /// These parts, cut at the end of a word if they do not fit.
    QString cutTo(const Numbers& parts, int lines, int room) const;
    /// The verdict in at most these lines: of more than one, the last has the change, and the others the idle time with
    /// its causes, without asides if they have no room.
    QString cutAnswer(int lines, int room) const;
    /// The parts before the change, or the change.
    Numbers partsOf(bool change, bool withAsides) const;

    std::shared_ptr<const RunVerdict> verdict_;
    QLabel* label_;
    QToolButton* more_;
    QToolButton* messages_;
    qsizetype count_ = 0;
    bool failed_ = false;
    int mostLines_ = 1;
};
}  // namespace pipescope
