#include "gui/window/live_badge.h"

namespace pipescope {
LiveBadge::LiveBadge(QWidget* parent) : QToolButton(parent) {
    setAccessibleName(tr("Follow the recording"));
    setCheckable(true);
    setChecked(true);
    hide();
}

void LiveBadge::setState(State state) {
    state_ = state;
    setVisible(state != State::no);
    setEnabled(state == State::following);
    if (state == State::following) {
        setText(tr("● Live"));
        setToolTip(
            tr("The trace is being written. While this is pressed, the view follows new data if its right end "
               "is visible."));
        setAccessibleName(tr("Follow the live trace"));
    } else if (state == State::ended) {
        setText(tr("■ Ended"));
        setToolTip(tr("The recording ended; all of it is shown."));
        setAccessibleName(tr("The recording ended"));
    }
}
}  // namespace pipescope
