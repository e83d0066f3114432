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
}  // namespace

AnswerBar::AnswerBar(QWidget* parent)
    : QWidget(parent), label_(new QLabel(this)), more_(new QToolButton(this)), messages_(new QToolButton(this)) {
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
    for (QToolButton* button : {more_, messages_}) {
        button->setCheckable(true);
        button->setAutoRaise(true);
        button->setFocusPolicy(Qt::TabFocus);
        button->hide();
    }
    more_->setAccessibleName(tr("The whole answer"));
    connect(more_, &QToolButton::toggled, this, &AnswerBar::refresh);
    arrange(new QHBoxLayout(this), {8, 3, 8, 2}, 8, {{label_, 1}, more_, messages_});
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

void AnswerBar::setMostLines(int lines) {
    if (lines != mostLines_) {
        mostLines_ = lines;
        refresh();
    }
}

int AnswerBar::heightOfLines(int lines) const {
    const QMargins margins = layout()->contentsMargins();
    return margins.top() + margins.bottom() +
           std::max(lines * label_->fontMetrics().lineSpacing(), messages_->sizeHint().height());
}

void AnswerBar::setMessages(qsizetype count, bool failed) {
    count_ = count;
    failed_ = failed;
    refresh();
}

void AnswerBar::resizeEvent(QResizeEvent* event) {
    QWidget::resizeEvent(event);
    refresh();
    label_->updateGeometry();  // at this width the text may take another number of lines
    updateGeometry();
}

void AnswerBar::changeEvent(QEvent* event) {
    QWidget::changeEvent(event);
    if (event->type() == QEvent::PaletteChange) {
        refresh();
    }
}

QString AnswerBar::htmlOf(qsizetype letters) const {
    const QString link = palette().color(QPalette::Link).name();
    QString html;
    for (std::size_t number = 0; number < verdict_->parts.size() && letters > 0; ++number) {
        const VerdictPart& part = verdict_->parts[number];
        const QString whole = QString::fromStdString(part.text);
        QString text = whole.left(letters);
        letters -= text.size();
        if (text.size() < whole.size() || (letters == 0 && number + 1 < verdict_->parts.size())) {
            text += QChar(0x2026);
        }
        text = text.toHtmlEscaped();
        html += part.evidence == Evidence::none
                    ? text
                    : QStringLiteral("<a href=\"#%1\" style=\"color:%2; text-decoration:none;\">%3</a>")
                          .arg(number)
                          .arg(link, text);
    }
    return html;
}

bool AnswerBar::fits(qsizetype letters, int lines, int room) const {
    QTextDocument measure;
    measure.setDefaultFont(label_->font());
    measure.setDocumentMargin(0);
    measure.setTextWidth(std::max(1, room));
    measure.setHtml(htmlOf(letters));
    return measure.size().height() <= (lines + 0.5) * label_->fontMetrics().lineSpacing();
}

qsizetype AnswerBar::lettersIn(int lines, int room) const {
    const QString all = text();
    qsizetype fitting = 0;
    for (qsizetype tooMany = all.size(); tooMany - fitting > 1;) {
        const qsizetype middle = (fitting + tooMany) / 2;
        (fits(middle, lines, room) ? fitting : tooMany) = middle;
    }
    const qsizetype word = all.lastIndexOf(QLatin1Char(' '), fitting);  // no word is cut in two
    return word > 0 ? word : fitting;
}

void AnswerBar::refresh() {
    messages_->setText(formatCount(count_, tr("message"), tr("messages")));
    messages_->setAccessibleName(tr("Messages about the file"));
    messages_->setToolTip(failed_ ? tr("Something failed: show the messages") : tr("Show the messages about the file"));
    const QColor failed = QColor::fromRgb(isDark(palette()) ? kFailedOnDark : kFailed);
    QPalette colors = palette();
    colors.setColor(QPalette::ButtonText, failed_ ? failed : palette().color(QPalette::Link));
    messages_->setPalette(colors);
    messages_->setVisible(count_ > 0);
    colors.setColor(QPalette::ButtonText, palette().color(QPalette::Link));
    more_->setPalette(colors);
    QString shown = tr("Judging the run …").toHtmlEscaped();
    bool isCut = false;
    if (verdict_) {
        const QMargins margins = layout()->contentsMargins();
        const auto beside = [this](const QToolButton& button) {
            return button.sizeHint().width() + layout()->spacing();
        };
        const int room = width() - margins.left() - margins.right() - (count_ > 0 ? beside(*messages_) : 0);
        isCut = !fits(text().size(), mostLines_, room);
        const bool isWhole = !isCut || more_->isChecked();
        shown = htmlOf(isWhole ? text().size() : lettersIn(mostLines_, room - beside(*more_)));
    }
    more_->setVisible(isCut);
    more_->setText(more_->isChecked() ? tr("Less") : tr("More"));
    // A new text takes the focus from a link, and bars are laid out again and again.
    if (shown != label_->text()) {
        label_->setText(shown);
    }
    label_->setToolTip(isCut && !more_->isChecked() ? text() : QString());
    label_->setAccessibleDescription(text());
}
}  // namespace pipescope
