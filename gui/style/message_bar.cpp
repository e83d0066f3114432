#include "gui/style/message_bar.h"

#include "gui/style/arrange.h"
#include "gui/style/task_style.h"

#include <QEvent>
#include <QHBoxLayout>
#include <QLabel>
#include <QStyle>
#include <QToolButton>

#include <algorithm>

namespace pipescope {
namespace {
constexpr int kLinesAtFirst = 2;
constexpr int kBarMargin = 8;
}  // namespace

MessageBar::MessageBar(QWidget* parent)
    : QFrame(parent),
      icon_(new QLabel(this)),
      text_(new QLabel(this)),
      more_(named(new QToolButton(this), tr("The whole message"))),
      close_(named(new QToolButton(this), tr("Close the message"))) {
    setAutoFillBackground(true);
    setFrameShape(QFrame::StyledPanel);
    text_->setWordWrap(true);
    text_->setTextFormat(Qt::PlainText);
    text_->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
    text_->setAlignment(Qt::AlignLeft | Qt::AlignTop);
    more_->setCheckable(true);
    more_->setAutoRaise(true);
    connect(more_, &QToolButton::toggled, this, &MessageBar::fit);
    close_->setText(tr("✕"));
    close_->setAutoRaise(true);
    connect(close_, &QToolButton::clicked, this, [this] {
        hide();
        Q_EMIT closed();
    });
    auto* layout = new QHBoxLayout(this);
    layout->setContentsMargins(kBarMargin, 4, 4, 4);
    layout->addWidget(icon_, 0, Qt::AlignTop);
    layout->addWidget(text_, 1);
    layout->addWidget(more_, 0, Qt::AlignTop);
    layout->addWidget(close_, 0, Qt::AlignTop);
    hide();
}

void MessageBar::fit() {
    more_->setText(more_->isChecked() ? tr("Less") : tr("More"));
    const int beside = icon_->sizeHint().width() + more_->sizeHint().width() + close_->sizeHint().width() +
                       3 * layout()->spacing() + 2 * kBarMargin;
    const QRect room(0, 0, std::max(1, width() - beside), QWIDGETSIZE_MAX);
    const int most = kLinesAtFirst * fontMetrics().lineSpacing();
    const bool isLong =
        fontMetrics().boundingRect(room, Qt::AlignLeft | Qt::TextWordWrap, text_->text()).height() > most;
    more_->setVisible(isLong);
    text_->setMaximumHeight(isLong && !more_->isChecked() ? most : QWIDGETSIZE_MAX);
}

void MessageBar::resizeEvent(QResizeEvent* event) {
    QFrame::resizeEvent(event);
    fit();
}

void MessageBar::changeEvent(QEvent* event) {
    QFrame::changeEvent(event);
    if (event->type() == QEvent::FontChange) {
        fit();
    }
}

void MessageBar::showMessage(Kind kind, const QString& text) {
    const bool error = kind == Kind::error;
    const auto picture = error ? QStyle::SP_MessageBoxCritical : QStyle::SP_MessageBoxInformation;
    icon_->setPixmap(style()->standardIcon(picture).pixmap(16, 16));
    if (text != text_->text()) {
        more_->setChecked(false);
    }
    text_->setText(text);
    fit();
    QPalette colors = parentWidget() != nullptr ? parentWidget()->palette() : palette();
    const bool dark = isDark(colors);
    const QColor ground =
        error ? QColor::fromRgb(dark ? 0x5C2320 : 0xFBDCD9) : QColor::fromRgb(dark ? 0x23405C : 0xDCEBFA);
    colors.setColor(QPalette::Window, ground);
    colors.setColor(QPalette::WindowText, textOn(ground));
    setPalette(colors);
    setAccessibleName(error ? tr("Error") : tr("Note"));
    setAccessibleDescription(text);
    show();
}

QString MessageBar::text() const {
    return text_->text();
}
}  // namespace pipescope
