#pragma once

#include <QToolButton>

namespace pipescope {
/// A badge that says whether the page's trace is being recorded. While it is pressed, a view that shows the end of the
/// trace keeps showing it as the trace grows.
class LiveBadge : public QToolButton {
    Q_OBJECT

public:
    enum class State { no, following, ended };

    explicit LiveBadge(QWidget* parent = nullptr);
    void setState(State state);
    State state() const { return state_; }
    /// True if the view must follow the end.
    bool follows() const { return state_ == State::following && isChecked(); }

private:
    State state_ = State::no;
};
}  // namespace pipescope
