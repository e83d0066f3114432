#include "gui/timeline/time_axis_model.h"

#include "gui/style/number_format.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace pipescope {
TimeAxisModel::TimeAxisModel(QObject* parent) : QObject(parent), window_(windowOf(total_)) {}

void TimeAxisModel::setTotal(const TimeRange& total) {
    total_ = total;
    past_.clear();
    future_.clear();
    lastGesture_ = Gesture::none;
    window_ = windowOf(total_);
    Q_EMIT windowChanged();
}

void TimeAxisModel::changeTotal(const TimeRange& total, const TimeWindow& window) {
    total_ = total;
    lastGesture_ = Gesture::none;
    window_ = clamped(window, total_);
    Q_EMIT windowChanged();
}

void TimeAxisModel::setOrigin(std::int64_t origin) {
    if (origin != origin_) {
        origin_ = origin;
        Q_EMIT originChanged();
    }
}

void TimeAxisModel::setTimeStyle(TimeStyle style) {
    if (style != style_) {
        style_ = style;
        Q_EMIT originChanged();
    }
}

void TimeAxisModel::setEpoch(std::optional<std::int64_t> epoch) {
    if (epoch != epoch_) {
        epoch_ = epoch;
        Q_EMIT originChanged();
    }
}

std::int64_t TimeAxisModel::zero() const {
    switch (timeStyle()) {
        case TimeStyle::step: return origin_;
        case TimeStyle::file: return 0;
        case TimeStyle::clock: return -*epoch_;
    }
    return 0;
}

QString TimeAxisModel::instantText(std::int64_t time, std::int64_t length) const {
    return timeStyle() == TimeStyle::clock ? formatClock(time - zero(), length) : formatInstant(time - zero(), length);
}

void TimeAxisModel::setCursor(std::optional<std::int64_t> time) {
    if (time != cursor_) {
        cursor_ = time;
        Q_EMIT cursorChanged();
    }
}

void TimeAxisModel::moveCursor(double ratio) {
    const double middle = window_.length / 2;
    double place = cursor_ ? static_cast<double>(*cursor_ - window_.start) : middle;
    place = place < 0 || place > window_.length ? middle : place + ratio * window_.length;
    setCursor(window_.start + std::llround(std::clamp(place, 0.0, window_.length)));
}

void TimeAxisModel::select(const std::optional<TaskSelection>& task, const std::optional<PartSelection>& part) {
    if (task != selection_ || part != part_) {
        selection_ = task;
        part_ = part;
        Q_EMIT selectionChanged();
    }
}

void TimeAxisModel::setMarks(std::vector<TimeMark> marks) {
    std::stable_sort(marks.begin(), marks.end(), [](const TimeMark& a, const TimeMark& b) { return a.time < b.time; });
    if (marks != marks_) {
        marks_ = std::move(marks);
        Q_EMIT marksChanged();
    }
}

void TimeAxisModel::setRange(std::optional<TimeRange> range) {
    marked_.reset();
    if (range && range->end < range->start) {
        std::swap(range->start, range->end);
    }
    if (range != range_) {
        range_ = range;
        Q_EMIT rangeChanged();
    }
}

void TimeAxisModel::markRangeEnd() {
    const std::int64_t here = cursor_.value_or(window_.start + static_cast<std::int64_t>(window_.length / 2));
    const std::optional<std::int64_t> first = marked_;
    setRange(TimeRange{first.value_or(here), here});
    marked_ = first ? std::nullopt : std::optional(here);
}

bool TimeAxisModel::leads(const std::vector<TimeWindow>& from) const {
    return std::ranges::any_of(from, [&](const TimeWindow& each) { return clamped(each, total_) != window_; });
}

void TimeAxisModel::travel(std::vector<TimeWindow>& from, std::vector<TimeWindow>& to) {
    if (!leads(from)) {
        return;
    }
    // Parts that differed while the content was longer are one now. They stay in the history, in which it may be again.
    to.push_back(window_);
    while (clamped(from.back(), total_) == window_) {
        to.push_back(from.back());
        from.pop_back();
    }
    window_ = clamped(from.back(), total_);
    from.pop_back();
    lastGesture_ = Gesture::none;
    Q_EMIT windowChanged();
}

void TimeAxisModel::moveTo(const TimeWindow& window, Gesture gesture) {
    const TimeWindow next = clamped(window, total_);
    if (next == window_) {
        return;
    }
    if (gesture == Gesture::jump || gesture != lastGesture_) {
        past_.push_back(window_);
    }
    future_.clear();
    lastGesture_ = gesture;
    window_ = next;
    Q_EMIT windowChanged();
}
}  // namespace pipescope
