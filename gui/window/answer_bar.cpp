#include "gui/window/answer_bar.h"

#include "gui/style/arrange.h"
#include "gui/style/number_format.h"
#include "gui/style/task_style.h"

#include <QEvent>
#include <QLabel>
#include <QTextDocument>
#include <QToolButton>

#include <algorithm>
#include <limits>
#include <utility>

namespace pipescope {
namespace {
constexpr QRgb kFailed = 0xFFC62828;
constexpr QRgb kFailedOnDark = 0xFFE57373;
constexpr QRgb kChange = 0xFF1B6E2E;
constexpr QRgb kChangeOnDark = 0xFF7CCB8A;
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

QString AnswerBar::styled(const VerdictPart& part, std::size_t number, const QString& text) const {
    const QString escaped = text.toHtmlEscaped();
    if (part.role == VerdictRole::words && part.evidence == Evidence::none) {
        return escaped;
    }
    const bool dark = isDark(palette());
    QString style;
    switch (part.role) {
        case VerdictRole::idle:
            style = QStringLiteral("color:%1; font-weight:bold;").arg(palette().color(QPalette::WindowText).name());
            break;
        case VerdictRole::words:
        case VerdictRole::cause: style = QStringLiteral("color:%1;").arg(palette().color(QPalette::Link).name()); break;
        case VerdictRole::aside:
            style = QStringLiteral("color:%1;").arg(timelineColors(palette()).faintText.name());
            break;
        case VerdictRole::change:
            style = QStringLiteral("color:%1;").arg(QColor::fromRgb(dark ? kChangeOnDark : kChange).name());
            break;
    }
    if (part.evidence == Evidence::none) {
        return QStringLiteral("<span style=\"%1\">%2</span>").arg(style, escaped);
    }
    const QString arrow =
        part.role == VerdictRole::change ? QStringLiteral("<b style=\"%1\">→</b> ").arg(style) : QString();
    return arrow +
           QStringLiteral("<a href=\"#%1\" style=\"%2 text-decoration:none;\">%3</a>").arg(number).arg(style, escaped);
}

QString AnswerBar::htmlOf(const Numbers& parts, qsizetype letters) const {
    QString html;
    for (std::size_t place = 0; place < parts.size() && letters > 0; ++place) {
        const VerdictPart& part = verdict_->parts[parts[place]];
        const QString whole = QString::fromStdString(part.text);
        QString text = whole.left(letters);
        letters -= text.size();
        if (text.size() < whole.size() || (letters == 0 && place + 1 < parts.size())) {
            text += QChar(0x2026);
        }
        html += styled(part, parts[place], text);
    }
    return html;
}

QString AnswerBar::htmlOf(const Numbers& parts) const {
    return htmlOf(parts, std::numeric_limits<qsizetype>::max());
}

QString AnswerBar::textOf(const Numbers& parts) const {
    QString text;
    for (const std::size_t number : parts) {
        text += QString::fromStdString(verdict_->parts[number].text);
    }
    return text;
}

bool AnswerBar::fits(const QString& html, int lines, int room) const {
    QTextDocument measure;
    measure.setDefaultFont(label_->font());
    measure.setDocumentMargin(0);
    measure.setTextWidth(std::max(1, room));
    measure.setHtml(html);
    return measure.size().height() <= (lines + 0.5) * label_->fontMetrics().lineSpacing();
}

QString AnswerBar::cutTo(const Numbers& parts, int lines, int room) const {
    if (const QString whole = htmlOf(parts); fits(whole, lines, room)) {
        return whole;
    }
    const QString all = textOf(parts);
    qsizetype fitting = 0;
    for (qsizetype tooMany = all.size(); tooMany - fitting > 1;) {
        const qsizetype middle = (fitting + tooMany) / 2;
        (fits(htmlOf(parts, middle), lines, room) ? fitting : tooMany) = middle;
    }
    qsizetype word = all.lastIndexOf(QLatin1Char(' '), fitting);  // no word is cut in two
    while (word > 1 && all[word - 1] == QLatin1Char(',')) {
        --word;
    }
    return htmlOf(parts, word > 0 ? word : fitting);
}

AnswerBar::Numbers AnswerBar::partsOf(bool change, bool withAsides) const {
    const std::vector<VerdictPart>& all = verdict_->parts;
    const auto first = std::ranges::find(all, VerdictRole::change, &VerdictPart::role);
    Numbers numbers;
    for (std::size_t number = 0; number < all.size(); ++number) {
        const bool isOfChange = number >= static_cast<std::size_t>(first - all.begin());
        if (isOfChange == change && (withAsides || all[number].role != VerdictRole::aside)) {
            numbers.push_back(number);
        }
    }
    return numbers;
}

QString AnswerBar::cutAnswer(int lines, int room) const {
    const Numbers change = partsOf(true, true);
    Numbers reason = partsOf(false, true);
    if (lines == 1 || change.empty()) {
        reason.insert(reason.end(), change.begin(), change.end());
        return cutTo(reason, lines, room);
    }
    if (!fits(htmlOf(reason), lines - 1, room)) {
        reason = partsOf(false, false);
    }
    return cutTo(reason, lines - 1, room) + QStringLiteral("<br>") + cutTo(change, 1, room);
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
        const Numbers reason = partsOf(false, true);
        const Numbers change = partsOf(true, true);
        const QString inOneLine = htmlOf(reason) + htmlOf(change);
        const QString inLines = htmlOf(reason) + (change.empty() ? QString() : QStringLiteral("<br>")) + htmlOf(change);
        const bool isOneLine = fits(inOneLine, 1, room);
        isCut = !isOneLine && !fits(inLines, mostLines_, room);
        shown = isOneLine                      ? inOneLine
                : !isCut || more_->isChecked() ? inLines
                                               : cutAnswer(mostLines_, room - beside(*more_));
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
