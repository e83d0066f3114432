#include "gui/style/message_bar.h"

#include "gui/style/arrange.h"
#include "gui/style/task_style.h"

#include <QHBoxLayout>
#include <QLabel>
#include <QStyle>
#include <QToolButton>

namespace pipescope {
MessageBar::MessageBar(QWidget* parent) : QFrame(parent), icon_(new QLabel(this)), text_(new QLabel(this)) {
    setAutoFillBackground(true);
    setFrameShape(QFrame::StyledPanel);
    text_->setWordWrap(true);
    text_->setTextFormat(Qt::PlainText);
    text_->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
    auto* close = named(new QToolButton(this), tr("Close the message"));
    close->setText(tr("✕"));
    close->setAutoRaise(true);
    connect(close, &QToolButton::clicked, this, &QWidget::hide);
    auto* layout = new QHBoxLayout(this);
    layout->setContentsMargins(8, 4, 4, 4);
    layout->addWidget(icon_);
    layout->addWidget(text_, 1);
    layout->addWidget(close, 0, Qt::AlignTop);
    hide();
}

void MessageBar::showMessage(Kind kind, const QString& text) {
    const bool error = kind == Kind::error;
    const auto picture = error ? QStyle::SP_MessageBoxCritical : QStyle::SP_MessageBoxInformation;
    icon_->setPixmap(style()->standardIcon(picture).pixmap(16, 16));
    text_->setText(text);
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
