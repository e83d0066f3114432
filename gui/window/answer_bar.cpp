#include "gui/window/answer_bar.h"

#include "gui/style/arrange.h"
#include "gui/style/number_format.h"
#include "gui/style/task_style.h"

#include <QEvent>
#include <QLabel>
#include <QTextDocument>
#include <QToolButton>

#include <algorithm>
#include <utility>

namespace pipescope {
namespace {
constexpr QRgb kFailed = 0xFFC62828;
constexpr QRgb kFailedOnDark = 0xFFE57373;
constexpr int kLinesOfATallWindow = 30;
constexpr int kMostLines = 2;  // a longer answer would push the timeline down
}  // namespace

AnswerBar::AnswerBar(QWidget* parent) : QWidget(parent), label_(new QLabel(this)), messages_(new QToolButton(this)) {
    setAccessibleName(tr("The answer"));
    label_->setWordWrap(true);
    label_->setTextFormat(Qt::RichText);
    // With links that take the focus, Tab would not leave the label again.
    label_->setTextInteractionFlags(Qt::LinksAccessibleByMouse | Qt::TextSelectableByMouse);
    label_->setFocusPolicy(Qt::NoFocus);
    label_->setAccessibleName(tr("Why this run idles, and what would help"));
    QFont larger = font();
    larger.setPointSizeF(larger.pointSizeF() * 1.1);
    label_->setFont(larger);
    QSizePolicy wraps(QSizePolicy::Ignored, QSizePolicy::Preferred);
    wraps.setHeightForWidth(true);
    label_->setSizePolicy(wraps);
    messages_->setCheckable(true);
    messages_->setAutoRaise(true);
    messages_->setFocusPolicy(Qt::TabFocus);
    messages_->hide();
    arrange(new QHBoxLayout(this), {8, 3, 8, 2}, 8, {{label_, 1}, messages_});
    connect(label_, &QLabel::linkActivated, this, [this](const QString& link) {
        bool isNumber = false;
        const auto number = link.mid(1).toULongLong(&isNumber);
        if (isNumber && verdict_ && number < verdict_->parts.size()) {
            const VerdictPart part = verdict_->parts[number];
            Q_EMIT asked(part);
        }
    });
    refresh();
}

void AnswerBar::setVerdict(std::shared_ptr<const RunVerdict> verdict) {
    verdict_ = std::move(verdict);
    refresh();
}

QString AnswerBar::text() const {
    return verdict_ ? QString::fromStdString(verdict_->text()) : QString();
}

void AnswerBar::setOneLine(bool oneLine) {
    if (oneLine != oneLine_) {
        oneLine_ = oneLine;
        refresh();
    }
}

void AnswerBar::setMessages(qsizetype count, bool failed) {
    count_ = count;
    failed_ = failed;
    refresh();
}

void AnswerBar::resizeEvent(QResizeEvent* event) {
    QWidget::resizeEvent(event);
    refresh();
}

void AnswerBar::changeEvent(QEvent* event) {
    QWidget::changeEvent(event);
    if (event->type() == QEvent::PaletteChange) {
        refresh();
    }
}

bool AnswerBar::fitsInFewLines(const QString& html, int room) const {
    QTextDocument measure;
    measure.setDefaultFont(label_->font());
    measure.setDocumentMargin(0);
    measure.setHtml(html);
    measure.setTextWidth(std::max(1, room));
    const int line = label_->fontMetrics().lineSpacing();
    const int most = window()->height() > kLinesOfATallWindow * line ? kMostLines : 1;
    return measure.size().height() <= (most + 0.5) * line;
}

void AnswerBar::refresh() {
    const QColor link = palette().color(QPalette::Link);
    QString html;
    for (std::size_t number = 0; verdict_ && number < verdict_->parts.size(); ++number) {
        const VerdictPart& part = verdict_->parts[number];
        const QString text = QString::fromStdString(part.text).toHtmlEscaped();
        html += part.evidence == Evidence::none
                    ? text
                    : QStringLiteral("<a href=\"#%1\" style=\"color:%2; text-decoration:none;\">%3</a>")
                          .arg(number)
                          .arg(link.name(), text);
    }
    messages_->setText(formatCount(count_, tr("message"), tr("messages")));
    messages_->setAccessibleName(tr("Messages about the file"));
    messages_->setToolTip(failed_ ? tr("Something failed: show the messages") : tr("Show the messages about the file"));
    const QColor failed = QColor::fromRgb(isDark(palette()) ? kFailedOnDark : kFailed);
    QPalette colors = palette();
    colors.setColor(QPalette::ButtonText, failed_ ? failed : link);
    messages_->setPalette(colors);
    messages_->setVisible(count_ > 0);
    const QString plain = verdict_ ? text() : tr("Judging the run …");
    const int beside = messages_->isHidden() ? 0 : messages_->sizeHint().width() + layout()->spacing();
    const int room = width() - layout()->contentsMargins().left() - layout()->contentsMargins().right() - beside;
    const bool isOneLine = oneLine_ || !fitsInFewLines(verdict_ ? html : plain.toHtmlEscaped(), room);
    const QString shown = isOneLine  ? label_->fontMetrics().elidedText(plain, Qt::ElideRight, room).toHtmlEscaped()
                          : verdict_ ? html
                                     : plain;
    // A new text takes the focus from a link, and bars are laid out again and again.
    if (shown != label_->text()) {
        label_->setWordWrap(!isOneLine);
        label_->setText(shown);
    }
    label_->setToolTip(isOneLine ? plain : QString());
    label_->setAccessibleDescription(text());
}
}  // namespace pipescope
