#include "gui/timeline/time_axis_model.h"
#include "gui/window/document_page.h"

#include <QFileInfo>
#include <QLabel>
#include <QToolButton>

#include <algorithm>

namespace pipescope {
namespace {
constexpr double kNearTheEnd = 0.02;  // of the window
}

QAbstractButton& DocumentPage::followButton() const {
    return *badge_;
}

void DocumentPage::showWaiting() {
    opening_->setText(tr("%1 is being recorded, but has no tasks yet.\nIt is shown as soon as the first step starts.")
                          .arg(QFileInfo(path_).fileName()));
}

void DocumentPage::setLive(Live live) {
    live_ = live;
    refreshNotes();
    badge_->setVisible(live != Live::no);
    badge_->setEnabled(live == Live::following);
    if (live == Live::following) {
        badge_->setText(tr("● Live"));
        badge_->setToolTip(
            tr("The trace is being written. While this is pressed, the view follows new data if its right end "
               "is visible."));
        badge_->setAccessibleName(tr("Follow the live trace"));
    } else if (live == Live::ended) {
        badge_->setText(tr("■ Ended"));
        badge_->setToolTip(tr("The recording ended; all of it is shown."));
        badge_->setAccessibleName(tr("The recording ended"));
    }
}

bool DocumentPage::atTheEnd() const {
    const TimeWindow& window = axis_->window();
    const double end = static_cast<double>(axis_->total().end - window.start);
    return live_ == Live::following && badge_->isChecked() && end <= window.length * (1 + kNearTheEnd);
}

void DocumentPage::scrollToTheEnd() {
    const auto length = static_cast<std::int64_t>(axis_->window().length);
    const std::int64_t end = axis_->total().end;
    axis_->scrollTo(windowOf({end - length, end}));
}
}  // namespace pipescope
