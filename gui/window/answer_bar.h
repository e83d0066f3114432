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
    /// In a low page, the text takes one line, without links; the tool tip has all of it.
    void setOneLine(bool oneLine);
    /// Shows that there are so many messages; none hides the button. `failed`: the gravest one says that something
    /// failed.
    void setMessages(qsizetype count, bool failed);
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
    /// True if the text takes at most two lines of `room` pixels, or one in a low window.
    bool fitsInFewLines(const QString& html, int room) const;

    std::shared_ptr<const RunVerdict> verdict_;
    QLabel* label_;
    QToolButton* messages_;
    qsizetype count_ = 0;
    bool failed_ = false;
    bool oneLine_ = false;
};
}  // namespace pipescope
